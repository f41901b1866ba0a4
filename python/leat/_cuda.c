#include "_cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

bool leat_cuda_open(const char *library, struct leat_cuda *out, char *problem, size_t problem_bytes)
{
    struct leat_cuda cuda;
    const struct {
        const char *name;
        void *place;
    } functions[] = {
        {"cuGetErrorString", &cuda.get_error_string},
        {"cuCtxGetCurrent", &cuda.ctx_get_current},
        {"cuCtxPushCurrent_v2", &cuda.ctx_push_current},
        {"cuCtxPopCurrent_v2", &cuda.ctx_pop_current},
        {"cuMemHostRegister_v2", &cuda.host_register},
        {"cuMemHostUnregister", &cuda.host_unregister},
        {"cuMemcpyHtoDAsync_v2", &cuda.copy_to_device},
        {"cuEventCreate", &cuda.event_create},
        {"cuEventDestroy_v2", &cuda.event_destroy},
        {"cuEventRecord", &cuda.event_record},
        {"cuEventQuery", &cuda.event_query},
        {"cuStreamWaitEvent", &cuda.stream_wait_event},
        {"cuStreamSynchronize", &cuda.stream_synchronize},
        {"cuModuleLoadData", &cuda.module_load_data},
        {"cuModuleUnload", &cuda.module_unload},
        {"cuModuleGetFunction", &cuda.module_get_function},
        {"cuLaunchKernel", &cuda.launch_kernel},
    };
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        snprintf(problem, problem_bytes, "%s", dlerror());
        return false;
    }
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *f = dlsym(handle, functions[i].name);
        if (!f) {
            snprintf(problem, problem_bytes, "%s has no %s: the driver is too old", library, functions[i].name);
            dlclose(handle);
            return false;
        }
        memcpy(functions[i].place, &f, sizeof f); /* as POSIX has it: a pointer to a function in a void pointer */
    }
    *out = cuda;
    return true;
}

const char *leat_cuda_text(const struct leat_cuda *cuda, cuda_result error)
{
    const char *text = NULL;
    cuda->get_error_string(error, &text);
    return text ? text : "an error that the driver has no name for";
}
