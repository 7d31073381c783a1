/* Where a test build can be made to die or to stop: before each send, each receive, and each store
 * or change of a file that another process can see. In other builds it is nothing.
 *
 * With -DMUSTER_HOOKS: MUSTER_HOOK="kill:17" raises SIGKILL at the 17th point that this process
 * comes to, "stop:17" SIGSTOP; hook_count() says how many there have been. */
#ifndef BASE_HOOK_H
#define BASE_HOOK_H

#ifdef MUSTER_HOOKS
void hook_point(void);
unsigned long hook_count(void);
/* Counting starts here, and by this order; NULL: nothing happens, they are only counted. */
void hook_arm(const char *order);
#define HOOK() hook_point()
#else
#define HOOK() ((void)0)
#endif

#endif
