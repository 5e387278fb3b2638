/* What every shim shares: a record of the calls it gets, one turn for all processes, texts in both encodings. */
#ifndef MULLION_CALLS_H
#define MULLION_CALLS_H

#include <windows.h>

#include "json.h"

#define EXPORT __declspec(dllexport)

/* Where the shims keep things, unless the environment names other places. */
#define HOME "C:\\ProgramData\\mullion"
/* The file that calls are recorded in. */
#define CALLS_VARIABLE "MULLION_CALLS"
#define CALLS_FILE HOME "\\calls\\calls.jsonl"
/* The folder with the objects that were made by calls. */
#define STATE_VARIABLE "MULLION_SHIM_STATE"
#define STATE_FOLDER HOME "\\shims"

/* One process at a time, whichever shim it calls. */
void turn_take(void);
void turn_give(void);

/* Appends one line: time, program, process, function, arguments, result. Takes the arguments. */
void call_record(const char *function, Json *arguments, HRESULT result);

/* An argument as a document where it is one, else as a string; null where there is none. */
Json *argument(const wchar_t *text);

/* The caller frees these. */
char *narrow(const wchar_t *text);
wchar_t *widen(const char *text);
/* For whoever called: freed by CoTaskMemFree. */
wchar_t *handed_out(const char *text);

/* The value of a variable, or what stands in for it. */
const char *setting(const char *variable, const char *otherwise, char *room, size_t size);
/* Makes the folders above a file. */
void make_folders(const char *file);

#endif
