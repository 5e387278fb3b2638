/* pdh.dll: the performance counters that kubelet reads, out of what the system says of itself. Wine's own has no
 * counters of processors, memory and adapters. Calls that only read come every few seconds: opening is recorded, and
 * reading is not. */
#include "calls.h"

#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#define PDH_MORE_DATA ((LONG)0x800007D2)
#define PDH_INVALID_HANDLE ((LONG)0xC0000BBC)
#define PDH_CSTATUS_NO_COUNTER ((LONG)0xC0000BB9)
#define PDH_FMT_LARGE 0x400
#define PDH_FMT_DOUBLE 0x200

typedef struct {
    DWORD status;
    union {
        LONG as_long;
        double as_double;
        LONGLONG as_large;
    } value;
} Value;

typedef struct {
    wchar_t *name;
    Value value;
} Item;

typedef enum { PROCESSOR, WORKING_SET, COMMITTED, ADAPTER } Meaning;

typedef struct {
    Meaning meaning;
    ULONGLONG idle;
    ULONGLONG busy;
} Counter;

static ULONGLONG number(FILETIME time) { return (ULONGLONG)time.dwHighDateTime << 32 | time.dwLowDateTime; }

/* How much of the time since the last question the processors were busy, in percent. */
static double processor(Counter *counter) {
    FILETIME idle, kernel, user;
    if (!GetSystemTimes(&idle, &kernel, &user)) return 0;
    /* The kernel's time has the idle time in it. */
    ULONGLONG rest = number(idle), busy = number(kernel) + number(user) - rest;
    ULONGLONG idle_since = rest - counter->idle, busy_since = busy - counter->busy;
    counter->idle = rest;
    counter->busy = busy;
    return idle_since + busy_since ? 100.0 * (double)busy_since / (double)(idle_since + busy_since) : 0;
}

static double measured(Counter *counter) {
    MEMORYSTATUSEX memory = {.dwLength = sizeof memory};
    switch (counter->meaning) {
    case PROCESSOR:
        return processor(counter);
    case WORKING_SET:
        GlobalMemoryStatusEx(&memory);
        return (double)(memory.ullTotalPhys - memory.ullAvailPhys);
    case COMMITTED:
        GlobalMemoryStatusEx(&memory);
        return (double)(memory.ullTotalPageFile - memory.ullAvailPageFile);
    default:
        /* Traffic goes through the machine's Linux side and is counted there. */
        return 0;
    }
}

static int meaning_of(const wchar_t *path, Meaning *meaning) {
    static const struct {
        const wchar_t *begin;
        Meaning meaning;
    } known[] = {{L"\\Processor(", PROCESSOR},
                 {L"\\Process(", WORKING_SET},
                 {L"\\Memory\\", COMMITTED},
                 {L"\\Network Adapter(", ADAPTER}};
    for (size_t i = 0; path && i < sizeof known / sizeof *known; i++) {
        if (_wcsnicmp(path, known[i].begin, wcslen(known[i].begin))) continue;
        *meaning = known[i].meaning;
        return 1;
    }
    return 0;
}

static LONG add(const char *function, const wchar_t *path, void **counter) {
    Meaning meaning;
    LONG result = PDH_CSTATUS_NO_COUNTER;
    Json *arguments = json_object();
    *counter = NULL;
    if (meaning_of(path, &meaning)) {
        Counter *new = calloc(1, sizeof *new);
        if (!new) abort();
        new->meaning = meaning;
        *counter = new;
        result = ERROR_SUCCESS;
    }
    json_put(arguments, "path", argument(path));
    call_record(function, arguments, result);
    return result;
}

EXPORT LONG WINAPI PdhOpenQuery(const wchar_t *source, DWORD_PTR data, void **query) {
    static int some;
    (void)source;
    (void)data;
    /* A query has nothing of its own: its counters do. */
    *query = &some;
    return ERROR_SUCCESS;
}

EXPORT LONG WINAPI PdhCloseQuery(void *query) { return query ? ERROR_SUCCESS : PDH_INVALID_HANDLE; }

EXPORT LONG WINAPI PdhCollectQueryData(void *query) { return query ? ERROR_SUCCESS : PDH_INVALID_HANDLE; }

EXPORT LONG WINAPI PdhAddCounterW(void *query, const wchar_t *path, DWORD_PTR data, void **counter) {
    (void)data;
    return query ? add("PdhAddCounterW", path, counter) : PDH_INVALID_HANDLE;
}

EXPORT LONG WINAPI PdhAddEnglishCounterW(void *query, const wchar_t *path, DWORD_PTR data, void **counter) {
    (void)data;
    return query ? add("PdhAddEnglishCounterW", path, counter) : PDH_INVALID_HANDLE;
}

static Value formatted(Counter *counter, DWORD format) {
    double now = measured(counter);
    Value value = {0, {0}};
    if (format & PDH_FMT_DOUBLE) value.value.as_double = now;
    else if (format & PDH_FMT_LARGE) value.value.as_large = (LONGLONG)now;
    else value.value.as_long = (LONG)now;
    return value;
}

EXPORT LONG WINAPI PdhGetFormattedCounterValue(void *counter, DWORD format, DWORD *type, Value *value) {
    if (!counter) return PDH_INVALID_HANDLE;
    if (type) *type = 0;
    *value = formatted(counter, format);
    return ERROR_SUCCESS;
}

EXPORT LONG WINAPI PdhGetFormattedCounterArrayW(void *handle, DWORD format, DWORD *size, DWORD *count, Item *items) {
    Counter *counter = handle;
    if (!counter) return PDH_INVALID_HANDLE;
    static wchar_t total[] = L"_Total", adapter[] = L"Ethernet";
    DWORD needed = sizeof(Item);
    *count = 1;
    if (*size < needed) {
        *size = needed;
        return PDH_MORE_DATA;
    }
    *size = needed;
    items[0].name = counter->meaning == ADAPTER ? adapter : total;
    items[0].value = formatted(counter, format);
    return ERROR_SUCCESS;
}

EXPORT LONG WINAPI PdhValidatePathW(const wchar_t *path) {
    Meaning meaning;
    return meaning_of(path, &meaning) ? ERROR_SUCCESS : PDH_CSTATUS_NO_COUNTER;
}
