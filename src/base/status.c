/* Statuses as sentences, and the library's version. */
#include "base/base.h"

#define STRING_(x) #x
#define STRING(x) STRING_(x)

const char *mu_strerror(int status)
{
    switch (status) {
#define X(name, value, text) \
    case MU_##name:          \
        return text;
        MU_STATUS_MAP(X)
#undef X
    default:
        return "unknown status";
    }
}

const char *mu_version(void)
{
    return STRING(MU_VERSION_MAJOR) "." STRING(MU_VERSION_MINOR) "." STRING(MU_VERSION_PATCH);
}
