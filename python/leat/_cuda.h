/* What we use of CUDA's driver, found in libcuda.so.1 when a loader is asked for a GPU: nothing of CUDA is needed to
 * build or to import Leat. Types and numbers are those of the driver's interface, which never change. */
#ifndef LEAT_PYTHON_CUDA_H
#define LEAT_PYTHON_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int cuda_result;       /* 0: success */
typedef uint64_t cuda_pointer; /* memory of the device */
typedef void *cuda_handle;     /* a context, stream, event, module or function */

#define CUDA_NOT_READY          600
#define CUDA_ALREADY_REGISTERED 712
#define CUDA_EVENT_NO_TIMING    2u
#define CUDA_REGISTER_PORTABLE  1u /* for the contexts of all devices */

struct leat_cuda {
    cuda_result (*get_error_string)(cuda_result error, const char **text);
    cuda_result (*ctx_get_current)(cuda_handle *context);
    cuda_result (*ctx_push_current)(cuda_handle context);
    cuda_result (*ctx_pop_current)(cuda_handle *context);
    cuda_result (*host_register)(void *data, size_t bytes, unsigned flags);
    cuda_result (*host_unregister)(void *data);
    cuda_result (*copy_to_device)(cuda_pointer to, const void *from, size_t bytes, cuda_handle stream);
    cuda_result (*event_create)(cuda_handle *event, unsigned flags);
    cuda_result (*event_destroy)(cuda_handle event);
    cuda_result (*event_record)(cuda_handle event, cuda_handle stream);
    cuda_result (*event_query)(cuda_handle event);
    cuda_result (*stream_wait_event)(cuda_handle stream, cuda_handle event, unsigned flags);
    cuda_result (*stream_synchronize)(cuda_handle stream);
    cuda_result (*module_load_data)(cuda_handle *module, const void *image);
    cuda_result (*module_unload)(cuda_handle module);
    cuda_result (*module_get_function)(cuda_handle *function, cuda_handle module, const char *name);
    cuda_result (*launch_kernel)(cuda_handle function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                 unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                 cuda_handle stream, void **parameters, void **extra);
};

/* Opens the library and fills in the table. False: `problem` says why, in one line. The library stays loaded. */
bool leat_cuda_open(const char *library, struct leat_cuda *out, char *problem, size_t problem_bytes);

const char *leat_cuda_text(const struct leat_cuda *cuda, cuda_result error); /* what the driver calls it */

#endif
