/* computenetwork.dll: the Host Compute Network service, as far as networks, endpoints, namespaces, load balancers and
 * routes are made, listed, changed and removed. Nothing is done to any network. */
#include "objects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HCN_E_NETWORK_NOT_FOUND ((HRESULT)0x803B0001)
#define HCN_E_ENDPOINT_NOT_FOUND ((HRESULT)0x803B0002)
#define HCN_E_INVALID_JSON ((HRESULT)0x803B001B)
#define HCN_E_NETWORK_ALREADY_EXISTS ((HRESULT)0x803B0010)
#define ELEMENT_NOT_FOUND HRESULT_FROM_WIN32(ERROR_NOT_FOUND)

/* What a handle leads to. */
typedef struct {
    const char *kind;
    char id[37];
} Handle;

static HRESULT not_found(const char *kind) {
    if (!strcmp(kind, "networks")) return HCN_E_NETWORK_NOT_FOUND;
    if (!strcmp(kind, "endpoints")) return HCN_E_ENDPOINT_NOT_FOUND;
    return ELEMENT_NOT_FOUND;
}

/* Says why, the way the service does, and gives the code back. */
static HRESULT refused(HRESULT code, const char *words, wchar_t **error) {
    char text[256];
    snprintf(text, sizeof text, "{\"Success\":false,\"Error\":\"%s\",\"ErrorCode\":%lu}", words, (unsigned long)code);
    if (error) *error = handed_out(text);
    return code;
}

static HRESULT gone(const char *kind, wchar_t **error) { return refused(not_found(kind), "Element not found.", error); }

static void *handle_to(const char *kind, const char *id) {
    Handle *handle = calloc(1, sizeof *handle);
    if (!handle) abort();
    handle->kind = kind;
    memcpy(handle->id, id, 36);
    return handle;
}

static Json *id_argument(const GUID *id) {
    char text[37];
    GUID none = {0};
    if (!id || !memcmp(id, &none, sizeof none)) return json_parse("null");
    id_text(id, text);
    return json_string(text);
}

static Json *handle_argument(const Handle *handle) { return handle ? json_string(handle->id) : json_parse("null"); }

/* The filter of a query is a document inside a string. */
static Json *filter_of(const wchar_t *query) {
    Json *document = query ? argument(query) : NULL;
    const char *text = json_text(document, "Filter");
    Json *filter = text && *text ? json_parse(text) : NULL;
    json_free(document);
    return filter;
}

static HRESULT enumerate(const char *kind, const char *function, const wchar_t *query, wchar_t **found,
                         wchar_t **error) {
    Json *filter = filter_of(query), *fitting = json_array(), *arguments = json_object();
    if (error) *error = NULL;
    turn_take();
    Json *ids = object_ids(kind);
    for (const Json *id = ids->first; id; id = id->next) {
        Json *object = object_read(kind, id->text);
        if (object && object_fits(object, filter)) json_add(fitting, json_string(id->text));
        json_free(object);
    }
    turn_give();
    char *text = json_print(fitting);
    if (found) *found = handed_out(text);
    json_put(arguments, "query", argument(query));
    call_record(function, arguments, S_OK);
    free(text);
    json_free(ids);
    json_free(fitting);
    json_free(filter);
    return S_OK;
}

static Json *policies_of(Json *object) {
    Json *policies = json_member(object, "Policies");
    if (policies && policies->kind == JSON_ARRAY) return policies;
    json_put(object, "Policies", json_array());
    return json_member(object, "Policies");
}

static void add_policy(Json *object, const char *type, const char *setting, const char *value) {
    Json *policies = policies_of(object), *policy = json_object(), *settings = json_object();
    for (const Json *one = policies->first; one; one = one->next) {
        const char *has = json_text(one, "Type");
        if (has && !_stricmp(has, type)) {
            json_free(policy);
            json_free(settings);
            return;
        }
    }
    json_put(settings, setting, json_string(value));
    json_put(policy, "Type", json_string(type));
    json_put(policy, "Settings", settings);
    json_add(policies, policy);
}

/* What the service knows by itself about a network that is bound to an adapter. */
static void complete_network(Json *network) {
    char address[16], hardware[18];
    const char *type = json_text(network, "Type");
    if (!type || !_stricmp(type, "NAT")) return;
    host_address(address, hardware);
    if (!address[0]) return;
    add_policy(network, "ProviderAddress", "ProviderAddress", address);
    add_policy(network, "DrMacAddress", "Address", hardware);
}

static void complete_endpoint(Json *endpoint, const Handle *network, const char *id) {
    char hardware[18];
    if (network) json_put(endpoint, "HostComputeNetwork", json_string(network->id));
    const char *given = json_text(endpoint, "MacAddress");
    if (given && *given) return;
    /* Hyper-V's own range; the rest is the id's. */
    snprintf(hardware, sizeof hardware, "00-15-5D-%.2s-%.2s-%.2s", id, id + 2, id + 4);
    for (char *at = hardware; *at; at++)
        if (*at >= 'a' && *at <= 'f') *at = (char)(*at - 'a' + 'A');
    json_put(endpoint, "MacAddress", json_string(hardware));
}

static int is_name_taken(const char *kind, const Json *object) {
    const char *name = json_text(object, "Name");
    int is_taken = 0;
    Json *ids = object_ids(kind);
    for (const Json *id = ids->first; id && name && !is_taken; id = id->next) {
        Json *other = object_read(kind, id->text);
        const char *has = json_text(other, "Name");
        is_taken = has && !strcmp(has, name);
        json_free(other);
    }
    json_free(ids);
    return is_taken;
}

static HRESULT create(const char *kind, const char *function, const Handle *network, const GUID *wish,
                      const wchar_t *settings, void **handle, wchar_t **error) {
    HRESULT result = S_OK;
    char id[37];
    Json *object = settings ? argument(settings) : NULL, *arguments = json_object();
    const char *own = json_text(object, "ID");
    id_text(wish, id);
    if (own && strlen(own) == 36) snprintf(id, sizeof id, "%s", own);
    _strlwr(id);
    if (error) *error = NULL;
    if (handle) *handle = NULL;
    if (network) json_put(arguments, "network", json_string(network->id));
    json_put(arguments, "id", id_argument(wish));
    json_put(arguments, "settings", argument(settings));
    turn_take();
    if (!object || object->kind != JSON_OBJECT) {
        result = refused(HCN_E_INVALID_JSON, "The JSON document is invalid.", error);
    } else if (!strcmp(kind, "networks") && is_name_taken(kind, object)) {
        result = refused(HCN_E_NETWORK_ALREADY_EXISTS, "The network already exists.", error);
    } else {
        json_put(object, "ID", json_string(id));
        if (!strcmp(kind, "networks")) complete_network(object);
        if (!strcmp(kind, "endpoints")) complete_endpoint(object, network, id);
        if (!object_write(kind, id, object)) result = refused(E_FAIL, "The object could not be kept.", error);
    }
    turn_give();
    if (SUCCEEDED(result) && handle) *handle = handle_to(kind, id);
    call_record(function, arguments, result);
    json_free(object);
    return result;
}

static HRESULT open(const char *kind, const char *function, const GUID *wish, void **handle, wchar_t **error) {
    char id[37];
    Json *arguments = json_object();
    id_text(wish, id);
    if (error) *error = NULL;
    turn_take();
    Json *object = object_read(kind, id);
    turn_give();
    HRESULT result = object ? S_OK : gone(kind, error);
    if (handle) *handle = object ? handle_to(kind, id) : NULL;
    json_put(arguments, "id", id_argument(wish));
    call_record(function, arguments, result);
    json_free(object);
    return result;
}

/* `Policies` of a request are added, or removed, or take the place of those of the same types. */
static void modify_policies(Json *object, const char *request, const Json *settings) {
    Json *policies = policies_of(object), *given = json_member(settings, "Policies");
    for (const Json *policy = given ? given->first : NULL; policy; policy = policy->next) {
        if (!_stricmp(request, "Update")) {
            const char *type = json_text(policy, "Type");
            for (Json *one = policies->first, *next; one; one = next) {
                const char *has = json_text(one, "Type");
                next = one->next;
                if (type && has && !_stricmp(type, has)) {
                    Json *equal = json_copy(one);
                    json_remove(policies, equal);
                    json_free(equal);
                    /* Equal ones went together. */
                    next = policies->first;
                }
            }
        }
        json_remove(policies, policy);
        if (_stricmp(request, "Remove")) json_add(policies, json_copy(policy));
    }
}

/* A namespace holds endpoints and containers. */
static void modify_resources(Json *object, const char *request, const char *type, const Json *settings) {
    Json *resources = json_member(object, "Resources"), *resource = json_object(), *data = json_object();
    if (!resources || resources->kind != JSON_ARRAY) {
        json_put(object, "Resources", json_array());
        resources = json_member(object, "Resources");
    }
    const char *id = json_text(settings, "EndpointId");
    if (!id) id = json_text(settings, "ContainerId");
    json_put(data, "Id", json_string(id ? id : ""));
    json_put(resource, "Type", json_string(type));
    json_put(resource, "Data", data);
    json_remove(resources, resource);
    if (!_stricmp(request, "Remove")) json_free(resource);
    else json_add(resources, resource);
}

static void modify_object(Json *object, const Json *settings) {
    const char *request = json_text(settings, "RequestType"), *type = json_text(settings, "ResourceType");
    const Json *inner = json_member(settings, "Settings");
    if (type && inner && !_stricmp(type, "Policy")) {
        modify_policies(object, request ? request : "Add", inner);
    } else if (type && inner && (!_stricmp(type, "Endpoint") || !_stricmp(type, "Container"))) {
        modify_resources(object, request ? request : "Add", type, inner);
    } else if (!type && settings->kind == JSON_OBJECT) {
        /* A load balancer is given as a whole. */
        for (const Json *member = settings->first; member; member = member->next)
            if (_stricmp(member->name, "ID")) json_put(object, member->name, json_copy(member));
    }
}

static HRESULT modify(const char *function, const Handle *handle, const wchar_t *settings, wchar_t **error) {
    HRESULT result = S_OK;
    Json *wish = settings ? argument(settings) : NULL, *arguments = json_object();
    if (error) *error = NULL;
    turn_take();
    Json *object = handle ? object_read(handle->kind, handle->id) : NULL;
    if (!handle) result = E_HANDLE;
    else if (!object) result = gone(handle->kind, error);
    else if (!wish || wish->kind != JSON_OBJECT)
        result = refused(HCN_E_INVALID_JSON, "The JSON document is invalid.", error);
    else {
        modify_object(object, wish);
        if (!object_write(handle->kind, handle->id, object)) result = E_FAIL;
    }
    turn_give();
    json_put(arguments, "id", handle_argument(handle));
    json_put(arguments, "settings", argument(settings));
    call_record(function, arguments, result);
    json_free(object);
    json_free(wish);
    return result;
}

static HRESULT query(const char *function, const Handle *handle, const wchar_t *wish, wchar_t **properties,
                     wchar_t **error) {
    Json *arguments = json_object();
    if (error) *error = NULL;
    turn_take();
    Json *object = handle ? object_read(handle->kind, handle->id) : NULL;
    turn_give();
    HRESULT result = !handle ? E_HANDLE : object ? S_OK : gone(handle->kind, error);
    char *text = object ? json_print(object) : NULL;
    if (properties) *properties = text ? handed_out(text) : NULL;
    json_put(arguments, "id", handle_argument(handle));
    json_put(arguments, "query", argument(wish));
    call_record(function, arguments, result);
    free(text);
    json_free(object);
    return result;
}

static HRESULT delete(const char *kind, const char *function, const GUID *wish, wchar_t **error) {
    char id[37];
    Json *arguments = json_object();
    id_text(wish, id);
    if (error) *error = NULL;
    turn_take();
    HRESULT result = object_remove(kind, id) ? S_OK : gone(kind, error);
    if (SUCCEEDED(result) && !strcmp(kind, "networks")) {
        /* A network takes its endpoints along. */
        Json *endpoints = object_ids("endpoints");
        for (const Json *one = endpoints->first; one; one = one->next) {
            Json *endpoint = object_read("endpoints", one->text);
            const char *network = json_text(endpoint, "HostComputeNetwork");
            if (network && !_stricmp(network, id)) object_remove("endpoints", one->text);
            json_free(endpoint);
        }
        json_free(endpoints);
    }
    turn_give();
    json_put(arguments, "id", id_argument(wish));
    call_record(function, arguments, result);
    return result;
}

static HRESULT closed(const char *function, Handle *handle) {
    Json *arguments = json_object();
    json_put(arguments, "id", handle_argument(handle));
    HRESULT result = handle ? S_OK : E_HANDLE;
    call_record(function, arguments, result);
    free(handle);
    return result;
}

#define KIND(Name, Names, kind)                                                                                       \
    EXPORT HRESULT WINAPI HcnEnumerate##Names(const wchar_t *wish, wchar_t **found, wchar_t **error) {                \
        return enumerate(kind, "HcnEnumerate" #Names, wish, found, error);                                            \
    }                                                                                                                 \
    EXPORT HRESULT WINAPI HcnOpen##Name(const GUID *id, void **handle, wchar_t **error) {                             \
        return open(kind, "HcnOpen" #Name, id, handle, error);                                                        \
    }                                                                                                                 \
    EXPORT HRESULT WINAPI HcnModify##Name(void *handle, const wchar_t *settings, wchar_t **error) {                   \
        return modify("HcnModify" #Name, handle, settings, error);                                                    \
    }                                                                                                                 \
    EXPORT HRESULT WINAPI HcnQuery##Name##Properties(void *handle, const wchar_t *wish, wchar_t **properties,         \
                                                     wchar_t **error) {                                               \
        return query("HcnQuery" #Name "Properties", handle, wish, properties, error);                                 \
    }                                                                                                                 \
    EXPORT HRESULT WINAPI HcnDelete##Name(const GUID *id, wchar_t **error) {                                          \
        return delete (kind, "HcnDelete" #Name, id, error);                                                           \
    }                                                                                                                 \
    EXPORT HRESULT WINAPI HcnClose##Name(void *handle) { return closed("HcnClose" #Name, handle); }

#define KIND_BY_ITSELF(Name, Names, kind)                                                                             \
    KIND(Name, Names, kind)                                                                                           \
    EXPORT HRESULT WINAPI HcnCreate##Name(const GUID *id, const wchar_t *settings, void **handle, wchar_t **error) {  \
        return create(kind, "HcnCreate" #Name, NULL, id, settings, handle, error);                                    \
    }

KIND_BY_ITSELF(Network, Networks, "networks")
KIND_BY_ITSELF(Namespace, Namespaces, "namespaces")
KIND_BY_ITSELF(LoadBalancer, LoadBalancers, "loadbalancers")
KIND_BY_ITSELF(SdnRoute, SdnRoutes, "routes")
KIND(Endpoint, Endpoints, "endpoints")

EXPORT HRESULT WINAPI HcnCreateEndpoint(void *network, const GUID *id, const wchar_t *settings, void **handle,
                                        wchar_t **error) {
    return create("endpoints", "HcnCreateEndpoint", network, id, settings, handle, error);
}
