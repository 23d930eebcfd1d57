/* Stands in for NVIDIA's management library in tests: two devices with known figures. -DINIT=n makes it fail to
 * start with code n, -DDEVICES=n gives it n devices, -DSILENT=n makes device n tell no utilisation. */
#include <stddef.h>
#include <string.h>

#ifndef INIT
#define INIT 0
#endif
#ifndef DEVICES
#define DEVICES 2
#endif
#ifndef SILENT
#define SILENT 0
#endif

struct utilization { unsigned gpu, memory; };
struct memory { unsigned long long total, free, used; };

int nvmlInit_v2(void) { return INIT; }

const char *nvmlErrorString(int code) { return code == 9 ? "Driver Not Loaded" : "Unknown Error"; }

int nvmlDeviceGetCount_v2(unsigned *count) {
    *count = DEVICES;
    return 0;
}

/* Handles are 1, 2, ... */
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    *device = (void *)(size_t)(index + 1);
    return 0;
}

int nvmlDeviceGetName(void *device, char *name, unsigned length) {
    strncpy(name, (size_t)device == 1 ? "Double A100" : "Double B200", length);
    return 0;
}

/* 20 % and 60 %: 40 % on average. Code 3 is "not supported". */
int nvmlDeviceGetUtilizationRates(void *device, struct utilization *rates) {
    if ((size_t)device == SILENT) return 3;
    rates->gpu = (size_t)device == 1 ? 20 : 60;
    rates->memory = 5;
    return 0;
}

/* 1 GiB and 2 GiB in use, of 8. */
int nvmlDeviceGetMemoryInfo(void *device, struct memory *memory) {
    memory->total = 8ull << 30;
    memory->used = (unsigned long long)(size_t)device << 30;
    memory->free = memory->total - memory->used;
    return 0;
}
