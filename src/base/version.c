#include "leat/leat.h"

const char *leat_version(void)
{
    return LEAT_VERSION_STRING;
}
