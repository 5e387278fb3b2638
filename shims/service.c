/*
 * Not a shim: a service for tests of the agent, which ends in one of the ways that services have.
 *
 *     service.exe by-itself NAME FILE   says that it stops, that it has stopped, and ends
 *     service.exe silently NAME FILE    says that it stops and ends, as kubelet does when it is quick
 *     service.exe never NAME FILE       says that it stops, and runs on
 *     service.exe run PROGRAM ...       starts the program and waits for its end, as kube-log-runner does
 *
 * Each start adds a line to FILE.
 */
#include <windows.h>

#include <stdio.h>
#include <string.h>

static const char *way;
static char *name;
static const char *file;
static SERVICE_STATUS_HANDLE manager;
static HANDLE told;

static void say(DWORD state) {
    SERVICE_STATUS status = {0};
    status.dwServiceType = SERVICE_WIN32_OWN_PROCESS;
    status.dwCurrentState = state;
    status.dwControlsAccepted = state == SERVICE_RUNNING ? SERVICE_ACCEPT_STOP : 0;
    SetServiceStatus(manager, &status);
}

static DWORD WINAPI hear(DWORD control, DWORD kind, void *data, void *context) {
    (void)kind, (void)data, (void)context;
    if (control == SERVICE_CONTROL_STOP) {
        say(SERVICE_STOP_PENDING);
        SetEvent(told);
    }
    return NO_ERROR;
}

static void WINAPI serve(DWORD count, char **words) {
    (void)count, (void)words;
    manager = RegisterServiceCtrlHandlerExA(name, hear, NULL);
    FILE *out = fopen(file, "ab");
    if (out) {
        fputs("started\n", out);
        fclose(out);
    }
    say(SERVICE_RUNNING);
    WaitForSingleObject(told, INFINITE);
    if (!strcmp(way, "silently")) ExitProcess(0);
    if (!strcmp(way, "never")) Sleep(INFINITE);
    say(SERVICE_STOPPED);
}

static int run(void) {
    /* What stands after the word `run`, as it was written. */
    const char *rest = strstr(GetCommandLineA(), " run ");
    char line[4096];
    STARTUPINFOA start = {.cb = sizeof start};
    PROCESS_INFORMATION child;
    DWORD status = 1;
    if (!rest) return 2;
    snprintf(line, sizeof line, "%s", rest + strlen(" run "));
    if (!CreateProcessA(NULL, line, NULL, NULL, TRUE, 0, NULL, NULL, &start, &child)) return 3;
    WaitForSingleObject(child.hProcess, INFINITE);
    GetExitCodeProcess(child.hProcess, &status);
    return (int)status;
}

int main(int count, char **words) {
    if (count > 1 && !strcmp(words[1], "run")) return run();
    if (count != 4) return 2;
    way = words[1];
    name = words[2];
    file = words[3];
    told = CreateEventA(NULL, TRUE, FALSE, NULL);
    SERVICE_TABLE_ENTRYA table[] = {{name, serve}, {NULL, NULL}};
    return StartServiceCtrlDispatcherA(table) ? 0 : 1;
}
