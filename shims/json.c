/* JSON as the shims need it. */
#include "json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Deeper than any document of HNS; a document that is deeper would use up the stack. */
#define DEEPEST 64

static void *taken(size_t size) {
    void *memory = calloc(1, size);
    if (!memory) abort();
    return memory;
}

static char *copied(const char *text, size_t length) {
    char *copy = taken(length + 1);
    memcpy(copy, text, length);
    return copy;
}

static Json *made(JsonKind kind) {
    Json *value = taken(sizeof *value);
    value->kind = kind;
    return value;
}

void text_add(Text *text, const char *more) {
    size_t length = strlen(more);
    if (text->length + length + 1 > text->room) {
        text->room = (text->length + length + 1) * 2;
        text->text = realloc(text->text, text->room);
        if (!text->text) abort();
    }
    memcpy(text->text + text->length, more, length + 1);
    text->length += length;
}

/* Reading. */

typedef struct {
    const char *at;
    int depth;
} Reader;

static void skip(Reader *reader) {
    while (*reader->at && strchr(" \t\r\n", *reader->at)) reader->at++;
}

static int hex4(const char *at, unsigned *code) {
    *code = 0;
    for (int i = 0; i < 4; i++) {
        char c = at[i];
        unsigned digit;
        if (c >= '0' && c <= '9') digit = (unsigned)(c - '0');
        else if (c >= 'a' && c <= 'f') digit = (unsigned)(c - 'a') + 10;
        else if (c >= 'A' && c <= 'F') digit = (unsigned)(c - 'A') + 10;
        else return 0;
        *code = *code * 16 + digit;
    }
    return 1;
}

static size_t utf8(unsigned code, char *to) {
    if (code < 0x80) {
        to[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        to[0] = (char)(0xC0 | code >> 6);
        to[1] = (char)(0x80 | (code & 63));
        return 2;
    }
    if (code < 0x10000) {
        to[0] = (char)(0xE0 | code >> 12);
        to[1] = (char)(0x80 | (code >> 6 & 63));
        to[2] = (char)(0x80 | (code & 63));
        return 3;
    }
    to[0] = (char)(0xF0 | code >> 18);
    to[1] = (char)(0x80 | (code >> 12 & 63));
    to[2] = (char)(0x80 | (code >> 6 & 63));
    to[3] = (char)(0x80 | (code & 63));
    return 4;
}

static char *read_string(Reader *reader) {
    if (*reader->at != '"') return NULL;
    const char *at = ++reader->at;
    char *text = taken(strlen(at) + 1);
    size_t length = 0;
    while (*at && *at != '"') {
        if (*at != '\\') {
            text[length++] = *at++;
            continue;
        }
        const char *plain = "\"\\/bfnrt", *meant = "\"\\/\b\f\n\r\t";
        const char *found = at[1] ? strchr(plain, at[1]) : NULL;
        unsigned code, low;
        if (found) {
            text[length++] = meant[found - plain];
            at += 2;
        } else if (at[1] == 'u' && hex4(at + 2, &code)) {
            at += 6;
            if (code >= 0xD800 && code < 0xDC00 && at[0] == '\\' && at[1] == 'u' && hex4(at + 2, &low)) {
                code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
                at += 6;
            }
            /* An escape is longer than what it stands for. */
            length += utf8(code, text + length);
        } else {
            free(text);
            return NULL;
        }
    }
    if (*at != '"') {
        free(text);
        return NULL;
    }
    reader->at = at + 1;
    return text;
}

static Json *read_value(Reader *reader);

static Json *read_items(Reader *reader, JsonKind kind, char end) {
    Json *value = made(kind), **last = &value->first;
    reader->at++;
    skip(reader);
    while (*reader->at != end) {
        char *name = NULL;
        if (kind == JSON_OBJECT) {
            name = read_string(reader);
            skip(reader);
            if (!name || *reader->at != ':') {
                free(name);
                json_free(value);
                return NULL;
            }
            reader->at++;
        }
        Json *item = read_value(reader);
        if (!item) {
            free(name);
            json_free(value);
            return NULL;
        }
        item->name = name;
        *last = item;
        last = &item->next;
        skip(reader);
        if (*reader->at == ',') {
            reader->at++;
            skip(reader);
            if (*reader->at != end) continue;
        }
        if (*reader->at != end || last == &value->first) {
            json_free(value);
            return NULL;
        }
    }
    reader->at++;
    return value;
}

static Json *read_value(Reader *reader) {
    skip(reader);
    if (reader->depth == DEEPEST) return NULL;
    reader->depth++;
    Json *value = NULL;
    char c = *reader->at;
    if (c == '{') {
        value = read_items(reader, JSON_OBJECT, '}');
    } else if (c == '[') {
        value = read_items(reader, JSON_ARRAY, ']');
    } else if (c == '"') {
        char *text = read_string(reader);
        if (text) {
            value = made(JSON_STRING);
            value->text = text;
        }
    } else {
        size_t length = strspn(reader->at, "+-.0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
        const char *word = reader->at;
        if (length == 4 && !strncmp(word, "null", 4)) {
            value = made(JSON_NULL);
        } else if ((length == 4 && !strncmp(word, "true", 4)) || (length == 5 && !strncmp(word, "false", 5))) {
            value = made(JSON_BOOL);
        } else if (length && strchr("-0123456789", c)) {
            value = made(JSON_NUMBER);
        }
        if (value) {
            value->text = copied(word, length);
            reader->at += length;
        }
    }
    reader->depth--;
    return value;
}

Json *json_parse(const char *text) {
    Reader reader = {text, 0};
    Json *value = read_value(&reader);
    skip(&reader);
    if (value && *reader.at) {
        json_free(value);
        return NULL;
    }
    return value;
}

/* Writing. */

static void print_string(Text *out, const char *text) {
    text_add(out, "\"");
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        char piece[8] = {(char)c, 0};
        if (c == '"' || c == '\\') snprintf(piece, sizeof piece, "\\%c", c);
        else if (c < 0x20) snprintf(piece, sizeof piece, "\\u%04x", c);
        text_add(out, piece);
    }
    text_add(out, "\"");
}

static void print(Text *out, const Json *value) {
    switch (value->kind) {
    case JSON_STRING:
        print_string(out, value->text);
        break;
    case JSON_ARRAY:
    case JSON_OBJECT:
        text_add(out, value->kind == JSON_ARRAY ? "[" : "{");
        for (const Json *item = value->first; item; item = item->next) {
            if (value->kind == JSON_OBJECT) {
                print_string(out, item->name);
                text_add(out, ":");
            }
            print(out, item);
            if (item->next) text_add(out, ",");
        }
        text_add(out, value->kind == JSON_ARRAY ? "]" : "}");
        break;
    case JSON_NULL:
        text_add(out, "null");
        break;
    default:
        text_add(out, value->text);
    }
}

char *json_print(const Json *value) {
    Text out = {0};
    print(&out, value);
    return out.text;
}

/* Making and changing. */

Json *json_array(void) { return made(JSON_ARRAY); }
Json *json_object(void) { return made(JSON_OBJECT); }

Json *json_string(const char *text) {
    Json *value = made(JSON_STRING);
    value->text = copied(text, strlen(text));
    return value;
}

Json *json_number(long long number) {
    char text[32];
    Json *value = made(JSON_NUMBER);
    snprintf(text, sizeof text, "%lld", number);
    value->text = copied(text, strlen(text));
    return value;
}

Json *json_bool(int is_true) {
    Json *value = made(JSON_BOOL);
    value->text = is_true ? copied("true", 4) : copied("false", 5);
    return value;
}

Json *json_copy(const Json *value) {
    Json *copy = made(value->kind), **last = &copy->first;
    if (value->text) copy->text = copied(value->text, strlen(value->text));
    for (const Json *item = value->first; item; item = item->next) {
        *last = json_copy(item);
        if (item->name) (*last)->name = copied(item->name, strlen(item->name));
        last = &(*last)->next;
    }
    return copy;
}

void json_free(Json *value) {
    while (value) {
        Json *next = value->next;
        json_free(value->first);
        free(value->name);
        free(value->text);
        free(value);
        value = next;
    }
}

Json *json_member(const Json *object, const char *name) {
    if (!object || object->kind != JSON_OBJECT) return NULL;
    for (Json *item = object->first; item; item = item->next)
        if (!_stricmp(item->name, name)) return item;
    return NULL;
}

const char *json_text(const Json *object, const char *name) {
    const Json *member = json_member(object, name);
    return member && member->kind == JSON_STRING ? member->text : NULL;
}

void json_put(Json *object, const char *name, Json *value) {
    Json **place = &object->first;
    while (*place && _stricmp((*place)->name, name)) place = &(*place)->next;
    Json *old = *place;
    free(value->name);
    value->name = copied(name, strlen(name));
    value->next = old ? old->next : NULL;
    *place = value;
    if (old) {
        old->next = NULL;
        json_free(old);
    }
}

void json_add(Json *array, Json *value) {
    Json **last = &array->first;
    while (*last) last = &(*last)->next;
    *last = value;
}

int json_equal(const Json *one, const Json *other) {
    char *first = json_print(one), *second = json_print(other);
    int is_equal = !strcmp(first, second);
    free(first);
    free(second);
    return is_equal;
}

void json_remove(Json *array, const Json *value) {
    for (Json **place = &array->first; *place;) {
        Json *item = *place;
        if (!json_equal(item, value)) {
            place = &item->next;
            continue;
        }
        *place = item->next;
        item->next = NULL;
        json_free(item);
    }
}
