/* JSON as the shims need it: read, changed and written; strings are UTF-8. */
#ifndef MULLION_JSON_H
#define MULLION_JSON_H

#include <stddef.h>

typedef enum { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT } JsonKind;

typedef struct Json {
    JsonKind kind;
    char *name;        /* of a member */
    char *text;        /* of a string, a number or a bool, as it was written */
    struct Json *first; /* of an array or an object */
    struct Json *next;
} Json;

/* NULL where the text is no JSON. An empty text is no JSON either. */
Json *json_parse(const char *text);
/* The caller frees it. */
char *json_print(const Json *value);

Json *json_array(void);
Json *json_object(void);
Json *json_string(const char *text);
Json *json_number(long long number);
Json *json_bool(int is_true);
Json *json_copy(const Json *value);
void json_free(Json *value);

/* Names are compared as HNS compares them: letters' case does not count. */
Json *json_member(const Json *object, const char *name);
/* The text of a member that is a string; NULL otherwise. */
const char *json_text(const Json *object, const char *name);
/* Takes the value; what had the name before is freed. */
void json_put(Json *object, const char *name, Json *value);
void json_add(Json *array, Json *value);
int json_equal(const Json *one, const Json *other);
/* Removes equal items from an array. */
void json_remove(Json *array, const Json *value);

/* Text that grows. */
typedef struct {
    char *text;
    size_t length;
    size_t room;
} Text;
void text_add(Text *text, const char *more);

#endif
