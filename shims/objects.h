/* Objects that calls make: one JSON file each, in a folder for each kind, so that other processes find them. */
#ifndef MULLION_OBJECTS_H
#define MULLION_OBJECTS_H

#include "calls.h"

/* All of these are called in one's turn. Ids are GUIDs in lower case, without braces. */
Json *object_read(const char *kind, const char *id);
int object_write(const char *kind, const char *id, const Json *object);
int object_remove(const char *kind, const char *id);
/* The ids of a kind, as an array in the order of names. */
Json *object_ids(const char *kind);

/* An id as text; a new one for the id that is all zeros. */
void id_text(const GUID *id, char text[37]);
/* Whether all members of the filter are in the object, with the same text. */
int object_fits(const Json *object, const Json *filter);

/* The IPv4 address and the hardware address of the first adapter that is up and no loopback; empty where none is. */
void host_address(char address[16], char hardware[18]);

#endif
