/* Writing and reading the XML documents of S3. */
#ifndef LEAT_SERVE_XML_H
#define LEAT_SERVE_XML_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

#define LEAT_SERVE_XML_HEAD "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
#define LEAT_SERVE_XML_NS   " xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\""

/* Text with what XML needs escaped; bytes that are no UTF-8 become U+FFFD. */
void leat_serve_xml_text(struct leat_buf *out, const char *text, size_t n);
void leat_serve_xml_open(struct leat_buf *out, const char *name);
void leat_serve_xml_close(struct leat_buf *out, const char *name);
void leat_serve_xml_element(struct leat_buf *out, const char *name, const char *text, size_t n);
void leat_serve_xml_string(struct leat_buf *out, const char *name, const char *text);
void leat_serve_xml_number(struct leat_buf *out, const char *name, uint64_t value);
void leat_serve_xml_time(struct leat_buf *out, const char *name, int64_t time_ns); /* since 1970 */

/* Each element that holds text, as its path of local names ("Delete/Object/Key") when it ends, and with text NULL each
 * element that holds others. Anything but LEAT_OK ends the reading and is returned. */
typedef leat_status leat_serve_xml_each(const char *path, const char *text, size_t n, void *user,
                                        struct leat_error *err);
leat_status leat_serve_xml_read(const char *data, size_t n, leat_serve_xml_each *each, void *user,
                                struct leat_error *err);

#endif
