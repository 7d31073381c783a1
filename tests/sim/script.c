#include "sim/sim.h"
int script_main(const char *path, bool rewrite)
{
    (void)path;
    (void)rewrite;
    return 1;
}
