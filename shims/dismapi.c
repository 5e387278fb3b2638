/* dismapi.dll: optional features of the running Windows, as far as one is looked at and enabled. Which are enabled is
 * kept in a file, with the start of the machine in which they were; nothing is installed. Enabling asks for a reboot the
 * way it does on a new Windows Server, and after the next start the feature is there. */
#include "objects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#define DISMAPI_E_DISMAPI_NOT_INITIALIZED ((HRESULT)0xC0040001)
#define DISMAPI_E_INVALID_DISM_SESSION ((HRESULT)0xC0040004)
#define DISMAPI_E_UNKNOWN_FEATURE ((HRESULT)0x800F080C)

/* The online image's own name. */
#define ONLINE L"DISM_{53BFAE52-B167-4E2F-A258-0A37B57FF845}"
/* The one session that can be open: any number but 0, which is none. */
#define SESSION 1
#define KIND "features"
#define FILE_NAME "online-features"

/* DismPackageFeatureState and DismRestartType. */
enum { NOT_PRESENT = 0, STAGED = 2, INSTALLED = 4, INSTALL_PENDING = 5 };
enum { RESTART_NO = 0, RESTART_REQUIRED = 2 };

/* As dismapi.h lays it out: without gaps. */
#pragma pack(push, 1)
typedef struct {
    const wchar_t *FeatureName;
    int FeatureState;
    const wchar_t *DisplayName;
    const wchar_t *Description;
    int RestartRequired;
    void *CustomProperty;
    UINT CustomPropertyCount;
} DismFeatureInfo;
#pragma pack(pop)

static LONG initialized;

/* Features that a Windows Server has on its disk, installed or not. */
static int is_known(const char *name) {
    static const char *const known[] = {"Containers", "Microsoft-Hyper-V", "Microsoft-Hyper-V-Management-PowerShell",
                                        "HypervisorPlatform", "VirtualMachinePlatform", "RemoteAccess", "Routing"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!_stricmp(known[i], name)) return 1;
    return 0;
}

/* Which start of the machine this is, as Windows counts them; 0 where nobody counts. */
static DWORD start(void) {
    DWORD number = 0, size = sizeof number;
    const char *key = "SYSTEM\\CurrentControlSet\\Control\\Session Manager\\Memory Management\\PrefetchParameters";
    RegGetValueA(HKEY_LOCAL_MACHINE, key, "BootId", RRF_RT_REG_DWORD, NULL, &number, &size);
    return number;
}

static int state_of(const char *name) {
    Json *all = object_read(KIND, FILE_NAME);
    const Json *since = json_member(all, name);
    int number = STAGED;
    if (since && since->text) number = strtoul(since->text, NULL, 10) == start() ? INSTALL_PENDING : INSTALLED;
    json_free(all);
    return number;
}

static HRESULT recorded(const char *function, Json *arguments, HRESULT result) {
    call_record(function, arguments ? arguments : json_object(), result);
    return result;
}

/* Whether a call may be made at all. */
static HRESULT usable(UINT session) {
    if (!initialized) return DISMAPI_E_DISMAPI_NOT_INITIALIZED;
    return session == SESSION ? S_OK : DISMAPI_E_INVALID_DISM_SESSION;
}

EXPORT HRESULT WINAPI DismInitialize(int level, const wchar_t *log, const wchar_t *scratch) {
    Json *arguments = json_object();
    InterlockedExchange(&initialized, 1);
    json_put(arguments, "logLevel", json_number(level));
    json_put(arguments, "logFile", argument(log));
    json_put(arguments, "scratchFolder", argument(scratch));
    return recorded("DismInitialize", arguments, S_OK);
}

EXPORT HRESULT WINAPI DismShutdown(void) {
    HRESULT result = InterlockedExchange(&initialized, 0) ? S_OK : DISMAPI_E_DISMAPI_NOT_INITIALIZED;
    return recorded("DismShutdown", NULL, result);
}

EXPORT HRESULT WINAPI DismOpenSession(const wchar_t *image, const wchar_t *windows, const wchar_t *drive,
                                      UINT *session) {
    Json *arguments = json_object();
    HRESULT result = initialized ? S_OK : DISMAPI_E_DISMAPI_NOT_INITIALIZED;
    (void)windows;
    (void)drive;
    if (SUCCEEDED(result) && (!image || _wcsicmp(image, ONLINE))) result = HRESULT_FROM_WIN32(ERROR_PATH_NOT_FOUND);
    *session = SUCCEEDED(result) ? SESSION : 0;
    json_put(arguments, "image", argument(image));
    return recorded("DismOpenSession", arguments, result);
}

EXPORT HRESULT WINAPI DismCloseSession(UINT session) { return recorded("DismCloseSession", NULL, usable(session)); }

EXPORT HRESULT WINAPI DismGetFeatureInfo(UINT session, const wchar_t *name, const wchar_t *identifier,
                                         int package_identifier, DismFeatureInfo **info) {
    HRESULT result = usable(session);
    Json *arguments = json_object();
    char *feature = narrow(name ? name : L"");
    (void)identifier;
    (void)package_identifier;
    *info = NULL;
    if (SUCCEEDED(result) && !is_known(feature)) result = DISMAPI_E_UNKNOWN_FEATURE;
    if (SUCCEEDED(result)) {
        /* One piece, which DismDelete frees: the name lies behind what points to it. */
        size_t length = (wcslen(name) + 1) * sizeof *name;
        DismFeatureInfo *made = calloc(1, sizeof *made + length);
        if (!made) abort();
        wchar_t *copy = (wchar_t *)(made + 1);
        memcpy(copy, name, length);
        turn_take();
        made->FeatureState = state_of(feature);
        turn_give();
        made->FeatureName = made->DisplayName = made->Description = copy;
        made->RestartRequired = RESTART_REQUIRED;
        *info = made;
    }
    json_put(arguments, "feature", json_string(feature));
    free(feature);
    return recorded("DismGetFeatureInfo", arguments, result);
}

EXPORT HRESULT WINAPI DismEnableFeature(UINT session, const wchar_t *name, const wchar_t *identifier,
                                        int package_identifier, BOOL limit, const wchar_t **sources, UINT count,
                                        BOOL all, HANDLE cancel, void *progress, void *data) {
    HRESULT result = usable(session);
    Json *arguments = json_object();
    char *feature = narrow(name ? name : L"");
    (void)identifier;
    (void)package_identifier;
    (void)sources;
    (void)count;
    (void)cancel;
    (void)progress;
    (void)data;
    if (SUCCEEDED(result) && !is_known(feature)) result = DISMAPI_E_UNKNOWN_FEATURE;
    if (SUCCEEDED(result)) {
        turn_take();
        if (state_of(feature) == STAGED) {
            Json *states = object_read(KIND, FILE_NAME);
            if (!states) states = json_object();
            json_put(states, feature, json_number(start()));
            if (!object_write(KIND, FILE_NAME, states)) result = E_FAIL;
            json_free(states);
            if (SUCCEEDED(result)) result = ERROR_SUCCESS_REBOOT_REQUIRED;
        }
        turn_give();
    }
    json_put(arguments, "feature", json_string(feature));
    json_put(arguments, "limitAccess", json_bool(limit));
    json_put(arguments, "enableAll", json_bool(all));
    free(feature);
    return recorded("DismEnableFeature", arguments, result);
}

EXPORT HRESULT WINAPI DismDelete(void *structure) {
    free(structure);
    return recorded("DismDelete", NULL, S_OK);
}
