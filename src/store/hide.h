/* What servers say is shown to people, and some say back what they were told. */
#ifndef LEAT_STORE_HIDE_H
#define LEAT_STORE_HIDE_H

struct leat_aws;

/* Ends a server's text where it begins to repeat a secret of the request that it answers: of `aws`, of `headers` (lines
 * as in extras.h; NULL: none), or a signature or password in a request's head. */
void leat_hide_secrets(char *text, const struct leat_aws *aws, const char *headers);

#endif
