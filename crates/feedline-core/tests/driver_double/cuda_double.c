/* A stand-in for NVIDIA's driver library, for machines without one.
 *
 * It has the functions that page-locking calls, keeps the list of registered ranges and is as strict
 * as the real one: ranges are exact byte ranges (two may share a page), an overlap is refused with
 * ALREADY_REGISTERED, an address that begins no range with NOT_REGISTERED or, inside a range, with
 * INVALID_VALUE, and nothing works before cuInit or without a current context. All state is of the
 * loaded copy, so each test loads a copy of its own.
 */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

typedef int CUresult;
typedef int CUdevice;
typedef struct context *CUcontext;

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    ALREADY_REGISTERED = 712,
    NOT_REGISTERED = 713,
};

enum { MOST_DEVICES = 8, MOST_PUSHED = 8, PORTABLE = 1 };

/* ---- what the test sets and reads; mirrored in mod.rs */

struct settings {
    int32_t init_result;
    int32_t devices;
    int32_t retain_result;
    int32_t unregister_result;
    int32_t active_device; /* its primary context is in use by somebody else; -1: none */
    uint64_t fail_every;   /* each k-th register fails; 0: none */
};

struct counts {
    uint64_t calls;
    uint64_t registered;
    uint64_t unregistered;
    uint64_t injected_failures;
    uint64_t overlaps;
    uint64_t unknown;
    uint64_t without_context;
    uint64_t wrong_flags;
    uint64_t live_blocks;
    uint64_t live_bytes;
    uint64_t peak_bytes;
    uint64_t pushed;
    uint64_t popped;
    uint64_t retained[MOST_DEVICES];
    uint64_t released[MOST_DEVICES];
};

/* ---- state */

struct range {
    uintptr_t start;
    size_t size;
    struct range *next;
};

struct context {
    CUdevice device;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct settings settings = {SUCCESS, 1, SUCCESS, SUCCESS, -1, 0};
static struct counts counts;
static struct range *ranges;
static struct context contexts[MOST_DEVICES];
static uint64_t register_calls;
static int initialised;

static __thread CUcontext pushed[MOST_PUSHED];
static __thread int depth;

void double_set(const struct settings *wanted) {
    pthread_mutex_lock(&lock);
    settings = *wanted;
    pthread_mutex_unlock(&lock);
}

void double_read(struct counts *out) {
    pthread_mutex_lock(&lock);
    *out = counts;
    pthread_mutex_unlock(&lock);
}

static CUresult leave(CUresult result) {
    pthread_mutex_unlock(&lock);
    return result;
}

static void enter(void) {
    pthread_mutex_lock(&lock);
    counts.calls += 1;
}

static int is_device(CUdevice device) {
    return device >= 0 && device < settings.devices && device < MOST_DEVICES;
}

static int is_active(CUdevice device) {
    return device == settings.active_device || counts.retained[device] > counts.released[device];
}

/* Freed memory must not come here: this faults or, in a sanitised build, reports. */
static void touch(const volatile char *start, size_t size) {
    (void)start[0];
    (void)start[size - 1];
}

/* ---- the driver */

CUresult cuInit(unsigned int flags) {
    enter();
    if (flags != 0) return leave(INVALID_VALUE);
    initialised = settings.init_result == SUCCESS;
    return leave(settings.init_result);
}

CUresult cuGetErrorString(CUresult error, const char **text) {
    enter();
    switch (error) {
    case OUT_OF_MEMORY: *text = "out of memory"; break;
    case NOT_INITIALIZED: *text = "initialization error"; break;
    case 46: *text = "CUDA-capable device(s) is/are busy or unavailable"; break;
    case ALREADY_REGISTERED: *text = "part or all of the requested memory range is already mapped"; break;
    default: *text = NULL; return leave(INVALID_VALUE);
    }
    return leave(SUCCESS);
}

CUresult cuDeviceGetCount(int *count) {
    enter();
    if (!initialised) return leave(NOT_INITIALIZED);
    *count = settings.devices;
    return leave(SUCCESS);
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    enter();
    if (!initialised) return leave(NOT_INITIALIZED);
    if (!is_device(ordinal)) return leave(INVALID_DEVICE);
    *device = ordinal;
    return leave(SUCCESS);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active) {
    enter();
    if (!is_device(device)) return leave(INVALID_DEVICE);
    *flags = 0;
    *active = is_active(device);
    return leave(SUCCESS);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    enter();
    if (!initialised) return leave(NOT_INITIALIZED);
    if (!is_device(device)) return leave(INVALID_DEVICE);
    if (settings.retain_result != SUCCESS) return leave(settings.retain_result);
    contexts[device].device = device;
    counts.retained[device] += 1;
    *context = &contexts[device];
    return leave(SUCCESS);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    enter();
    if (!is_device(device)) return leave(INVALID_DEVICE);
    if (!is_active(device)) return leave(INVALID_CONTEXT);
    counts.released[device] += 1;
    return leave(SUCCESS);
}

CUresult cuCtxGetCurrent(CUcontext *context) {
    enter();
    if (!initialised) return leave(NOT_INITIALIZED);
    *context = depth > 0 ? pushed[depth - 1] : NULL;
    return leave(SUCCESS);
}

CUresult cuCtxGetDevice(CUdevice *device) {
    enter();
    if (depth == 0) return leave(INVALID_CONTEXT);
    *device = pushed[depth - 1]->device;
    return leave(SUCCESS);
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
    enter();
    if (context == NULL || !is_active(context->device) || depth == MOST_PUSHED)
        return leave(INVALID_CONTEXT);
    pushed[depth++] = context;
    counts.pushed += 1;
    return leave(SUCCESS);
}

CUresult cuCtxPopCurrent_v2(CUcontext *context) {
    enter();
    if (depth == 0) return leave(INVALID_CONTEXT);
    *context = pushed[--depth];
    counts.popped += 1;
    return leave(SUCCESS);
}

CUresult cuMemHostRegister_v2(void *address, size_t size, unsigned int flags) {
    uintptr_t start = (uintptr_t)address;
    enter();
    if (depth == 0) {
        counts.without_context += 1;
        return leave(INVALID_CONTEXT);
    }
    if (flags != PORTABLE) counts.wrong_flags += 1;
    if (address == NULL || size == 0) return leave(INVALID_VALUE);
    for (struct range *r = ranges; r != NULL; r = r->next)
        if (start < r->start + r->size && r->start < start + size) {
            counts.overlaps += 1;
            return leave(ALREADY_REGISTERED);
        }
    register_calls += 1;
    if (settings.fail_every != 0 && register_calls % settings.fail_every == 0) {
        counts.injected_failures += 1;
        return leave(OUT_OF_MEMORY);
    }
    struct range *range = malloc(sizeof *range);
    if (range == NULL) return leave(OUT_OF_MEMORY);
    *range = (struct range){start, size, ranges};
    ranges = range;
    touch(address, size);
    counts.registered += 1;
    counts.live_blocks += 1;
    counts.live_bytes += size;
    if (counts.live_bytes > counts.peak_bytes) counts.peak_bytes = counts.live_bytes;
    return leave(SUCCESS);
}

CUresult cuMemHostUnregister(void *address) {
    uintptr_t start = (uintptr_t)address;
    enter();
    if (depth == 0) {
        counts.without_context += 1;
        return leave(INVALID_CONTEXT);
    }
    if (settings.unregister_result != SUCCESS) return leave(settings.unregister_result);
    for (struct range **link = &ranges; *link != NULL; link = &(*link)->next) {
        struct range *range = *link;
        if (start < range->start || start >= range->start + range->size) continue;
        if (start != range->start) {
            counts.unknown += 1;
            return leave(INVALID_VALUE);
        }
        touch(address, range->size);
        counts.unregistered += 1;
        counts.live_blocks -= 1;
        counts.live_bytes -= range->size;
        *link = range->next;
        free(range);
        return leave(SUCCESS);
    }
    counts.unknown += 1;
    return leave(NOT_REGISTERED);
}
