/* What every shim shares. */
#include "calls.h"

#include <objbase.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static HANDLE turn(void) {
    static HANDLE mutex;
    if (!mutex) {
        HANDLE made = CreateMutexW(NULL, FALSE, L"mullion-shims");
        /* Two threads may come here at once: one of the two handles is left open. */
        InterlockedCompareExchangePointer(&mutex, made, NULL);
    }
    return mutex;
}

void turn_take(void) { WaitForSingleObject(turn(), INFINITE); }

void turn_give(void) { ReleaseMutex(turn()); }

char *narrow(const wchar_t *text) {
    int length = WideCharToMultiByte(CP_UTF8, 0, text, -1, NULL, 0, NULL, NULL);
    char *copy = malloc((size_t)length + 1);
    if (!copy) abort();
    WideCharToMultiByte(CP_UTF8, 0, text, -1, copy, length, NULL, NULL);
    return copy;
}

wchar_t *widen(const char *text) {
    int length = MultiByteToWideChar(CP_UTF8, 0, text, -1, NULL, 0);
    wchar_t *copy = malloc(((size_t)length + 1) * sizeof *copy);
    if (!copy) abort();
    MultiByteToWideChar(CP_UTF8, 0, text, -1, copy, length);
    return copy;
}

wchar_t *handed_out(const char *text) {
    int length = MultiByteToWideChar(CP_UTF8, 0, text, -1, NULL, 0);
    wchar_t *copy = CoTaskMemAlloc(((size_t)length + 1) * sizeof *copy);
    if (copy) MultiByteToWideChar(CP_UTF8, 0, text, -1, copy, length);
    return copy;
}

const char *setting(const char *variable, const char *otherwise, char *room, size_t size) {
    DWORD length = GetEnvironmentVariableA(variable, room, (DWORD)size);
    return length && length < size ? room : otherwise;
}

void make_folders(const char *file) {
    char path[MAX_PATH];
    snprintf(path, sizeof path, "%s", file);
    /* Not the drive itself. */
    for (char *at = path + 3; *at; at++) {
        if (*at != '\\') continue;
        *at = 0;
        CreateDirectoryA(path, NULL);
        *at = '\\';
    }
}

Json *argument(const wchar_t *text) {
    if (!text) return json_parse("null");
    char *plain = narrow(text);
    Json *value = json_parse(plain);
    if (!value) value = json_string(plain);
    free(plain);
    return value;
}

void call_record(const char *function, Json *arguments, HRESULT result) {
    SYSTEMTIME now;
    char stamp[32], program[MAX_PATH] = "", code[16], room[MAX_PATH];
    GetSystemTime(&now);
    snprintf(stamp, sizeof stamp, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", now.wYear, now.wMonth, now.wDay, now.wHour,
             now.wMinute, now.wSecond, now.wMilliseconds);
    GetModuleFileNameA(NULL, program, sizeof program - 1);
    const char *name = strrchr(program, '\\');
    snprintf(code, sizeof code, "0x%08lx", (unsigned long)result);

    Json *line = json_object();
    json_put(line, "time", json_string(stamp));
    json_put(line, "program", json_string(name ? name + 1 : program));
    json_put(line, "process", json_number((long long)GetCurrentProcessId()));
    json_put(line, "function", json_string(function));
    json_put(line, "arguments", arguments);
    json_put(line, "result", json_string(code));
    Text text = {json_print(line), 0, 0};
    text.length = strlen(text.text);
    text_add(&text, "\n");
    json_free(line);

    const char *file = setting(CALLS_VARIABLE, CALLS_FILE, room, sizeof room);
    make_folders(file);
    turn_take();
    HANDLE out = CreateFileA(file, FILE_APPEND_DATA, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                             OPEN_ALWAYS, FILE_ATTRIBUTE_NORMAL, NULL);
    if (out != INVALID_HANDLE_VALUE) {
        DWORD written;
        WriteFile(out, text.text, (DWORD)text.length, &written, NULL);
        CloseHandle(out);
    }
    turn_give();
    free(text.text);
}
