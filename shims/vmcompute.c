/* vmcompute.dll: the first form of the Host Network Service, on the same objects as computenetwork.dll, and a Host
 * Compute Service without compute systems. */
#include "objects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HCS_E_SYSTEM_NOT_FOUND ((HRESULT)0xC037010E)

/* The service's version tells callers what it can do: those of Windows Server 2019, 2022 and 2025. */
static Json *version(void) {
    char build[16] = "";
    DWORD size = sizeof build;
    RegGetValueA(HKEY_LOCAL_MACHINE, "SOFTWARE\\Microsoft\\Windows NT\\CurrentVersion", "CurrentBuildNumber",
                 RRF_RT_REG_SZ, NULL, build, &size);
    int number = atoi(build);
    if (number >= 26100) return json_parse("{\"Major\":15,\"Minor\":4}");
    if (number >= 20348) return json_parse("{\"Major\":13,\"Minor\":2}");
    return json_parse("{\"Major\":9,\"Minor\":5}");
}

static void rename_member(Json *to, const char *name, const Json *from, const char *old) {
    const Json *member = json_member(from, old);
    if (member && !json_member(to, name)) json_put(to, name, json_copy(member));
}

/* A network of the second form as the first one shows it. */
static void show_network(Json *network) {
    const Json *ipams = json_member(network, "Ipams"), *policies = json_member(network, "Policies");
    if (ipams && ipams->kind == JSON_ARRAY && !json_member(network, "Subnets")) {
        Json *subnets = json_array();
        for (const Json *ipam = ipams->first; ipam; ipam = ipam->next) {
            const Json *list = json_member(ipam, "Subnets");
            for (const Json *one = list ? list->first : NULL; one; one = one->next) {
                Json *subnet = json_object();
                const Json *routes = json_member(one, "Routes");
                rename_member(subnet, "AddressPrefix", one, "IpAddressPrefix");
                if (routes && routes->first) rename_member(subnet, "GatewayAddress", routes->first, "NextHop");
                json_add(subnets, subnet);
            }
        }
        json_put(network, "Subnets", subnets);
    }
    for (const Json *policy = policies ? policies->first : NULL; policy; policy = policy->next) {
        const char *type = json_text(policy, "Type");
        if (type && !_stricmp(type, "ProviderAddress"))
            rename_member(network, "ManagementIP", json_member(policy, "Settings"), "ProviderAddress");
    }
}

static void show_endpoint(Json *endpoint) {
    const Json *addresses = json_member(endpoint, "IpConfigurations");
    rename_member(endpoint, "VirtualNetwork", endpoint, "HostComputeNetwork");
    if (addresses && addresses->first) {
        rename_member(endpoint, "IPAddress", addresses->first, "IpAddress");
        rename_member(endpoint, "PrefixLength", addresses->first, "PrefixLength");
    }
    /* kubelet walks the containers of each endpoint. */
    if (!json_member(endpoint, "SharedContainers")) json_put(endpoint, "SharedContainers", json_array());
}

/* What was made by the first form, so that the second finds it. */
static void keep_network(Json *network) {
    const Json *subnets = json_member(network, "Subnets");
    if (!subnets || subnets->kind != JSON_ARRAY || json_member(network, "Ipams")) return;
    Json *ipams = json_array(), *ipam = json_object(), *list = json_array();
    for (const Json *one = subnets->first; one; one = one->next) {
        Json *subnet = json_object(), *routes = json_array(), *route = json_object();
        rename_member(subnet, "IpAddressPrefix", one, "AddressPrefix");
        rename_member(route, "NextHop", one, "GatewayAddress");
        json_put(route, "DestinationPrefix", json_string("0.0.0.0/0"));
        json_add(routes, route);
        json_put(subnet, "Routes", routes);
        json_add(list, subnet);
    }
    json_put(ipam, "Type", json_string("Static"));
    json_put(ipam, "Subnets", list);
    json_add(ipams, ipam);
    json_put(network, "Ipams", ipams);
    char address[16], hardware[18];
    host_address(address, hardware);
    if (!json_member(network, "ManagementIP")) json_put(network, "ManagementIP", json_string(address));
}

static void keep_endpoint(Json *endpoint) {
    rename_member(endpoint, "HostComputeNetwork", endpoint, "VirtualNetwork");
    if (json_member(endpoint, "IpConfigurations") || !json_member(endpoint, "IPAddress")) return;
    Json *addresses = json_array(), *address = json_object();
    rename_member(address, "IpAddress", endpoint, "IPAddress");
    rename_member(address, "PrefixLength", endpoint, "PrefixLength");
    json_add(addresses, address);
    json_put(endpoint, "IpConfigurations", addresses);
}

static void show(const char *kind, Json *object) {
    if (!strcmp(kind, "networks")) show_network(object);
    if (!strcmp(kind, "endpoints")) show_endpoint(object);
}

static Json *list(const char *kind) {
    Json *all = json_array(), *ids = object_ids(kind);
    for (const Json *id = ids->first; id; id = id->next) {
        Json *object = object_read(kind, id->text);
        if (!object) continue;
        show(kind, object);
        json_add(all, object);
    }
    json_free(ids);
    return all;
}

static Json *statistics(const char *id) {
    static const char *const counters[] = {"BytesReceived",         "BytesSent",          "DroppedPacketsIncoming",
                                           "DroppedPacketsOutgoing", "PacketsReceived",   "PacketsSent"};
    Json *all = json_object();
    json_put(all, "EndpointID", json_string(id));
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++) json_put(all, counters[i], json_number(0));
    return all;
}

/* Makes or changes an object; the answer is the object. NULL where the request is no document. */
static Json *keep(const char *kind, char *id, const char *request) {
    Json *object = json_parse(request);
    if (!object || object->kind != JSON_OBJECT) {
        json_free(object);
        return NULL;
    }
    Json *old = *id ? object_read(kind, id) : NULL;
    for (const Json *member = old ? old->first : NULL; member; member = member->next)
        rename_member(object, member->name, old, member->name);
    json_free(old);
    const char *own = json_text(object, "ID");
    if (!*id && own && strlen(own) == 36) snprintf(id, 37, "%s", own);
    if (!*id) id_text(NULL, id);
    _strlwr(id);
    json_put(object, "ID", json_string(id));
    if (!strcmp(kind, "networks")) keep_network(object);
    if (!strcmp(kind, "endpoints")) keep_endpoint(object);
    object_write(kind, id, object);
    show(kind, object);
    return object;
}

/* `/endpoints/<id>/attach` in its pieces. */
typedef struct {
    char kind[32];
    char id[37];
    char verb[32];
} Target;

static Target target_of(const char *path) {
    Target target = {{0}, {0}, {0}};
    char *pieces[] = {target.kind, target.id, target.verb};
    size_t rooms[] = {sizeof target.kind, sizeof target.id, sizeof target.verb};
    for (size_t piece = 0; piece < 3 && *path; piece++) {
        path += strspn(path, "/");
        size_t length = strcspn(path, "/");
        if (length < rooms[piece]) memcpy(pieces[piece], path, length);
        path += length;
    }
    _strlwr(target.kind);
    _strlwr(target.id);
    return target;
}

static int is_known(const char *kind) {
    return !strcmp(kind, "networks") || !strcmp(kind, "endpoints") || !strcmp(kind, "policylists") ||
           !strcmp(kind, "namespaces");
}

/* The answer's `Output`; NULL and words where it is refused. */
static Json *answer(const char *method, Target *target, const char *request, const char **words) {
    const char *kind = target->kind;
    *words = "Element not found. ";
    if (!strcmp(kind, "globals")) return version();
    if (!strcmp(kind, "endpointstats")) {
        Json *endpoint = object_read("endpoints", target->id);
        Json *all = endpoint ? statistics(target->id) : NULL;
        json_free(endpoint);
        return all;
    }
    if (!is_known(kind)) {
        *words = "The request is not supported. ";
        return NULL;
    }
    if (!strcmp(method, "GET")) {
        if (!*target->id) return list(kind);
        Json *object = object_read(kind, target->id);
        if (object) show(kind, object);
        return object;
    }
    if (!strcmp(method, "DELETE")) return object_remove(kind, target->id) ? json_object() : NULL;
    Json *object = *target->id ? object_read(kind, target->id) : NULL;
    if (*target->id && !object) return NULL;
    if (*target->verb) {
        /* Attached to nothing, since there are no containers: the answer is the endpoint. */
        show(kind, object);
        return object;
    }
    json_free(object);
    *words = "The JSON document is invalid. ";
    return keep(kind, target->id, request);
}

EXPORT HRESULT WINAPI HNSCall(const wchar_t *method, const wchar_t *path, const wchar_t *request,
                              wchar_t **response) {
    char *verb = narrow(method), *where = narrow(path), *wish = narrow(request ? request : L"");
    const char *words;
    Target target = target_of(where);
    turn_take();
    Json *output = answer(verb, &target, wish, &words);
    turn_give();
    Json *whole = json_object(), *arguments = json_object();
    json_put(whole, "Success", json_bool(output != NULL));
    if (output) {
        json_put(whole, "Output", output);
    } else {
        json_put(whole, "Error", json_string(words));
        json_put(whole, "ErrorCode", json_number((unsigned long)HRESULT_FROM_WIN32(ERROR_NOT_FOUND)));
    }
    char *text = json_print(whole);
    if (response) *response = handed_out(text);
    json_put(arguments, "method", json_string(verb));
    json_put(arguments, "path", json_string(where));
    json_put(arguments, "request", argument(request));
    json_put(arguments, "success", json_bool(output != NULL));
    call_record("HNSCall", arguments, S_OK);
    json_free(whole);
    free(text);
    free(verb);
    free(where);
    free(wish);
    return S_OK;
}

EXPORT HRESULT WINAPI HcsEnumerateComputeSystems(const wchar_t *query, wchar_t **systems, wchar_t **result) {
    Json *arguments = json_object();
    if (result) *result = NULL;
    if (systems) *systems = handed_out("[]");
    json_put(arguments, "query", argument(query));
    call_record("HcsEnumerateComputeSystems", arguments, S_OK);
    return S_OK;
}

static HRESULT no_system(const char *function, const wchar_t *id, void **system, wchar_t **result, HRESULT code) {
    Json *arguments = json_object();
    if (system) *system = NULL;
    if (result) *result = NULL;
    json_put(arguments, "id", argument(id));
    call_record(function, arguments, code);
    return code;
}

EXPORT HRESULT WINAPI HcsOpenComputeSystem(const wchar_t *id, void **system, wchar_t **result) {
    return no_system("HcsOpenComputeSystem", id, system, result, HCS_E_SYSTEM_NOT_FOUND);
}

EXPORT HRESULT WINAPI HcsCreateComputeSystem(const wchar_t *id, const wchar_t *configuration, HANDLE identity,
                                             void **system, wchar_t **result) {
    (void)configuration;
    (void)identity;
    return no_system("HcsCreateComputeSystem", id, system, result, E_NOTIMPL);
}

EXPORT HRESULT WINAPI HcsCloseComputeSystem(void *system) {
    (void)system;
    return no_system("HcsCloseComputeSystem", NULL, NULL, NULL, E_HANDLE);
}

EXPORT HRESULT WINAPI HcsGetServiceProperties(const wchar_t *query, wchar_t **properties, wchar_t **result) {
    Json *arguments = json_object();
    if (properties) *properties = NULL;
    if (result) *result = NULL;
    json_put(arguments, "query", argument(query));
    call_record("HcsGetServiceProperties", arguments, E_NOTIMPL);
    return E_NOTIMPL;
}
