/* hnetcfg.dll: the firewall's rules, as far as they are made, listed and removed. Wine's own takes a rule and forgets it,
 * and lists none. Each rule is kept in a file; nothing is let through or kept out. A rule that was listed is a copy. */
#define COBJMACROS
#define INITGUID
/* winsock2.h comes before windows.h, or the two do not go together. */
#include <winsock2.h>

#include "objects.h"

#include <netfw.h>
#include <oleauto.h>
#include <stdlib.h>
#include <string.h>

#define KIND "firewall-rules"

/* The numbers of the protocols that have ports, and of all of them. */
enum { TCP = 6, UDP = 17, ANY = 256 };

/* How every object of ours begins. */
typedef struct {
    const void *methods;
    LONG references;
    /* What it can be asked for, beside IUnknown and IDispatch. */
    const IID *own;
    /* A rule, or the rules that are still to be listed. */
    Json *value;
} Object;

static HRESULT made(const void *methods, const IID *own, Json *value, void **out) {
    Object *object = calloc(1, sizeof *object);
    if (!object) abort();
    object->methods = methods;
    object->references = 1;
    object->own = own;
    object->value = value;
    *out = object;
    return S_OK;
}

static HRESULT WINAPI query(Object *this, REFIID iid, void **out) {
    *out = NULL;
    if (!IsEqualIID(iid, &IID_IUnknown) && !IsEqualIID(iid, &IID_IDispatch) && !IsEqualIID(iid, this->own))
        return E_NOINTERFACE;
    InterlockedIncrement(&this->references);
    *out = this;
    return S_OK;
}

static ULONG WINAPI keep(Object *this) { return (ULONG)InterlockedIncrement(&this->references); }

static ULONG WINAPI release(Object *this) {
    LONG left = InterlockedDecrement(&this->references);
    if (left) return (ULONG)left;
    json_free(this->value);
    free(this);
    return 0;
}

/* What nobody of ours calls. */
static HRESULT WINAPI absent(void) { return E_NOTIMPL; }

#define UNKNOWN (void *)query, (void *)keep, (void *)release
#define ABSENT (void *)absent
#define DISPATCH UNKNOWN, ABSENT, ABSENT, ABSENT, ABSENT

/* A rule's properties. */

static HRESULT text_get(INetFwRule *this, const char *name, BSTR *out) {
    const char *text = json_text(((Object *)this)->value, name);
    wchar_t *wide = text ? widen(text) : NULL;
    *out = SysAllocString(wide);
    free(wide);
    return S_OK;
}

static HRESULT text_put(INetFwRule *this, const char *name, BSTR text) {
    char *plain = narrow(text ? text : L"");
    json_put(((Object *)this)->value, name, json_string(plain));
    free(plain);
    return S_OK;
}

static LONG number_of(const Json *rule, const char *name) {
    const Json *number = json_member(rule, name);
    return number && number->text ? strtol(number->text, NULL, 10) : 0;
}

static HRESULT number_put(INetFwRule *this, const char *name, LONG number) {
    json_put(((Object *)this)->value, name, json_number(number));
    return S_OK;
}

#define WORDS(Name)                                                                                                   \
    static HRESULT WINAPI get_##Name(INetFwRule *this, BSTR *out) { return text_get(this, #Name, out); }              \
    static HRESULT WINAPI put_##Name(INetFwRule *this, BSTR text) { return text_put(this, #Name, text); }
#define NUMBER(Name, Type)                                                                                            \
    static HRESULT WINAPI get_##Name(INetFwRule *this, Type *out) {                                                   \
        *out = (Type)number_of(((Object *)this)->value, #Name);                                                       \
        return S_OK;                                                                                                  \
    }                                                                                                                 \
    static HRESULT WINAPI put_##Name(INetFwRule *this, Type number) { return number_put(this, #Name, (LONG)number); }

WORDS(Name)
WORDS(Description)
WORDS(Grouping)
NUMBER(Protocol, LONG)
NUMBER(Direction, NET_FW_RULE_DIRECTION)
NUMBER(Enabled, VARIANT_BOOL)
NUMBER(Profiles, LONG)
NUMBER(Action, NET_FW_ACTION)

static HRESULT WINAPI get_LocalPorts(INetFwRule *this, BSTR *out) { return text_get(this, "LocalPorts", out); }

/* Windows takes ports only where the protocol has some. */
static HRESULT WINAPI put_LocalPorts(INetFwRule *this, BSTR ports) {
    LONG protocol = number_of(((Object *)this)->value, "Protocol");
    if (protocol != TCP && protocol != UDP) return E_INVALIDARG;
    return text_put(this, "LocalPorts", ports);
}

static const INetFwRuleVtbl rule_methods = {
    DISPATCH,
    get_Name,       put_Name,
    get_Description, put_Description,
    ABSENT,         ABSENT, /* ApplicationName */
    ABSENT,         ABSENT, /* ServiceName */
    get_Protocol,   put_Protocol,
    get_LocalPorts, put_LocalPorts,
    ABSENT,         ABSENT, /* RemotePorts */
    ABSENT,         ABSENT, /* LocalAddresses */
    ABSENT,         ABSENT, /* RemoteAddresses */
    ABSENT,         ABSENT, /* IcmpTypesAndCodes */
    get_Direction,  put_Direction,
    ABSENT,         ABSENT, /* Interfaces */
    ABSENT,         ABSENT, /* InterfaceTypes */
    get_Enabled,    put_Enabled,
    get_Grouping,   put_Grouping,
    get_Profiles,   put_Profiles,
    ABSENT,         ABSENT, /* EdgeTraversal */
    get_Action,     put_Action,
};

/* A new rule as Windows gives it out: off, for everything that comes in. */
static HRESULT new_rule(void **out) {
    Json *rule = json_object();
    json_put(rule, "Protocol", json_number(ANY));
    json_put(rule, "Direction", json_number(NET_FW_RULE_DIR_IN));
    json_put(rule, "Enabled", json_number(VARIANT_FALSE));
    json_put(rule, "Profiles", json_number(NET_FW_PROFILE2_ALL));
    json_put(rule, "Action", json_number(NET_FW_ACTION_ALLOW));
    return made(&rule_methods, &IID_INetFwRule, rule, out);
}

/* The list of them. */

static HRESULT WINAPI next(IEnumVARIANT *this, ULONG wanted, VARIANT *out, ULONG *got) {
    Json *rules = ((Object *)this)->value;
    ULONG count = 0;
    for (; count < wanted && rules->first; count++) {
        Json *rule = rules->first;
        rules->first = rule->next;
        rule->next = NULL;
        VariantInit(&out[count]);
        V_VT(&out[count]) = VT_DISPATCH;
        made(&rule_methods, &IID_INetFwRule, rule, (void **)&V_DISPATCH(&out[count]));
    }
    if (got) *got = count;
    return count == wanted ? S_OK : S_FALSE;
}

static const IEnumVARIANTVtbl list_methods = {UNKNOWN, next, ABSENT, ABSENT, ABSENT};

static HRESULT WINAPI rules_list(INetFwRules *this, IUnknown **out) {
    Json *rules = json_array();
    (void)this;
    turn_take();
    Json *ids = object_ids(KIND);
    for (const Json *id = ids->first; id; id = id->next) {
        Json *rule = object_read(KIND, id->text);
        if (rule) json_add(rules, rule);
    }
    turn_give();
    json_free(ids);
    call_record("INetFwRules.get__NewEnum", json_object(), S_OK);
    return made(&list_methods, &IID_IEnumVARIANT, rules, (void **)out);
}

static HRESULT WINAPI rules_add(INetFwRules *this, INetFwRule *rule) {
    Json *arguments = json_object();
    HRESULT result = S_OK;
    GUID none = {0};
    char id[37];
    (void)this;
    if (!rule || rule->lpVtbl != &rule_methods) return E_INVALIDARG;
    const Json *value = ((Object *)rule)->value;
    id_text(&none, id);
    turn_take();
    if (!object_write(KIND, id, value)) result = E_FAIL;
    turn_give();
    json_put(arguments, "rule", json_copy(value));
    call_record("INetFwRules.Add", arguments, result);
    return result;
}

/* One rule of that name goes; where there is none, that is well too. */
static HRESULT WINAPI rules_remove(INetFwRules *this, BSTR name) {
    Json *arguments = json_object();
    char *plain = narrow(name ? name : L"");
    int is_gone = 0;
    (void)this;
    turn_take();
    Json *ids = object_ids(KIND);
    for (const Json *id = ids->first; id && !is_gone; id = id->next) {
        Json *rule = object_read(KIND, id->text);
        const char *own = json_text(rule, "Name");
        if (own && !strcmp(own, plain)) is_gone = object_remove(KIND, id->text);
        json_free(rule);
    }
    turn_give();
    json_free(ids);
    json_put(arguments, "name", json_string(plain));
    free(plain);
    call_record("INetFwRules.Remove", arguments, S_OK);
    return S_OK;
}

static const INetFwRulesVtbl rules_methods = {DISPATCH, ABSENT, rules_add, rules_remove, ABSENT, rules_list};

static HRESULT WINAPI policy_rules(INetFwPolicy2 *this, INetFwRules **out) {
    (void)this;
    return made(&rules_methods, &IID_INetFwRules, NULL, (void **)out);
}

static const INetFwPolicy2Vtbl policy_methods = {
    DISPATCH,      ABSENT, ABSENT, ABSENT, ABSENT, ABSENT, ABSENT, ABSENT, ABSENT, ABSENT, ABSENT, ABSENT,
    policy_rules,  ABSENT, ABSENT, ABSENT, ABSENT, ABSENT, ABSENT, ABSENT, ABSENT, ABSENT, ABSENT,
};

/* What makes the two of them. */

static HRESULT WINAPI factory_query(IClassFactory *this, REFIID iid, void **out) {
    *out = NULL;
    if (!IsEqualIID(iid, &IID_IUnknown) && !IsEqualIID(iid, &IID_IClassFactory)) return E_NOINTERFACE;
    *out = this;
    return S_OK;
}

/* They stay for as long as the library does, which is for ever. */
static ULONG WINAPI factory_keep(IClassFactory *this) {
    (void)this;
    return 2;
}

static HRESULT handed(HRESULT result, Object *object, REFIID iid, void **out) {
    if (FAILED(result)) return result;
    result = query(object, iid, out);
    release(object);
    return result;
}

static HRESULT WINAPI make_policy(IClassFactory *this, IUnknown *outer, REFIID iid, void **out) {
    void *object;
    (void)this;
    if (outer) return CLASS_E_NOAGGREGATION;
    HRESULT result = made(&policy_methods, &IID_INetFwPolicy2, NULL, &object);
    return handed(result, object, iid, out);
}

static HRESULT WINAPI make_rule(IClassFactory *this, IUnknown *outer, REFIID iid, void **out) {
    void *object;
    (void)this;
    if (outer) return CLASS_E_NOAGGREGATION;
    HRESULT result = new_rule(&object);
    return handed(result, object, iid, out);
}

static const IClassFactoryVtbl of_policies = {factory_query, factory_keep, factory_keep, make_policy, ABSENT};
static const IClassFactoryVtbl of_rules = {factory_query, factory_keep, factory_keep, make_rule, ABSENT};

EXPORT HRESULT WINAPI DllGetClassObject(REFCLSID class, REFIID iid, void **out) {
    static IClassFactory policies = {(IClassFactoryVtbl *)&of_policies}, rules = {(IClassFactoryVtbl *)&of_rules};
    *out = NULL;
    if (IsEqualCLSID(class, &CLSID_NetFwPolicy2)) return factory_query(&policies, iid, out);
    if (IsEqualCLSID(class, &CLSID_NetFwRule)) return factory_query(&rules, iid, out);
    return CLASS_E_CLASSNOTAVAILABLE;
}

EXPORT HRESULT WINAPI DllCanUnloadNow(void) { return S_FALSE; }
