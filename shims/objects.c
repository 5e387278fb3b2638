/* Objects that calls make. */
/* winsock2.h comes before windows.h, or the two do not go together. */
#include <winsock2.h>
#include <ws2tcpip.h>

#include "objects.h"

#include <iphlpapi.h>
#include <objbase.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void place(char path[MAX_PATH], const char *kind, const char *name) {
    char room[MAX_PATH];
    const char *folder = setting(STATE_VARIABLE, STATE_FOLDER, room, sizeof room);
    snprintf(path, MAX_PATH, "%s\\%s\\%s.json", folder, kind, name);
}

Json *object_read(const char *kind, const char *id) {
    char path[MAX_PATH];
    place(path, kind, id);
    HANDLE file = CreateFileA(path, GENERIC_READ, FILE_SHARE_READ, NULL, OPEN_EXISTING, 0, NULL);
    if (file == INVALID_HANDLE_VALUE) return NULL;
    DWORD size = GetFileSize(file, NULL), got = 0;
    char *text = calloc(1, (size_t)size + 1);
    if (!text) abort();
    if (!ReadFile(file, text, size, &got, NULL)) got = 0;
    text[got] = 0;
    CloseHandle(file);
    Json *object = json_parse(text);
    free(text);
    return object;
}

int object_write(const char *kind, const char *id, const Json *object) {
    char path[MAX_PATH], new[MAX_PATH];
    place(path, kind, id);
    place(new, kind, "new");
    make_folders(path);
    HANDLE file = CreateFileA(new, GENERIC_WRITE, 0, NULL, CREATE_ALWAYS, 0, NULL);
    if (file == INVALID_HANDLE_VALUE) return 0;
    char *text = json_print(object);
    DWORD written = 0, length = (DWORD)strlen(text);
    int is_whole = WriteFile(file, text, length, &written, NULL) && written == length;
    CloseHandle(file);
    free(text);
    /* Whoever is killed meanwhile leaves the old object or the new one. */
    return is_whole && MoveFileExA(new, path, MOVEFILE_REPLACE_EXISTING);
}

int object_remove(const char *kind, const char *id) {
    char path[MAX_PATH];
    place(path, kind, id);
    return DeleteFileA(path);
}

Json *object_ids(const char *kind) {
    char pattern[MAX_PATH];
    Json *ids = json_array();
    WIN32_FIND_DATAA found;
    place(pattern, kind, "*-*");
    HANDLE search = FindFirstFileA(pattern, &found);
    if (search == INVALID_HANDLE_VALUE) return ids;
    do {
        char *end = strrchr(found.cFileName, '.');
        if (end) *end = 0;
        /* The order of a folder is nobody's promise. */
        Json **at = &ids->first, *id = json_string(found.cFileName);
        while (*at && strcmp((*at)->text, id->text) < 0) at = &(*at)->next;
        id->next = *at;
        *at = id;
    } while (FindNextFileA(search, &found));
    FindClose(search);
    return ids;
}

void id_text(const GUID *id, char text[37]) {
    GUID own = {0};
    if (id) own = *id;
    GUID none = {0};
    if (!memcmp(&own, &none, sizeof own)) CoCreateGuid(&own);
    snprintf(text, 37, "%08lx-%04x-%04x-%02x%02x-%02x%02x%02x%02x%02x%02x", (unsigned long)own.Data1, own.Data2,
             own.Data3, own.Data4[0], own.Data4[1], own.Data4[2], own.Data4[3], own.Data4[4], own.Data4[5],
             own.Data4[6], own.Data4[7]);
}

int object_fits(const Json *object, const Json *filter) {
    if (!filter || filter->kind != JSON_OBJECT) return 1;
    for (const Json *wish = filter->first; wish; wish = wish->next) {
        const char *text = json_text(object, wish->name);
        if (wish->kind != JSON_STRING || !text || _stricmp(text, wish->text)) return 0;
    }
    return 1;
}

void host_address(char address[16], char hardware[18]) {
    ULONG size = 16384;
    IP_ADAPTER_ADDRESSES *adapters = calloc(1, size);
    address[0] = hardware[0] = 0;
    if (!adapters) abort();
    if (GetAdaptersAddresses(AF_INET, 0, NULL, adapters, &size) == NO_ERROR) {
        for (IP_ADAPTER_ADDRESSES *one = adapters; one && !address[0]; one = one->Next) {
            IP_ADAPTER_UNICAST_ADDRESS *first = one->FirstUnicastAddress;
            if (one->IfType == IF_TYPE_SOFTWARE_LOOPBACK || one->OperStatus != IfOperStatusUp || !first) continue;
            const unsigned char *ip =
                (const unsigned char *)&((struct sockaddr_in *)first->Address.lpSockaddr)->sin_addr;
            const unsigned char *mac = one->PhysicalAddress;
            snprintf(address, 16, "%u.%u.%u.%u", ip[0], ip[1], ip[2], ip[3]);
            snprintf(hardware, 18, "%02X-%02X-%02X-%02X-%02X-%02X", mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]);
        }
    }
    free(adapters);
}
