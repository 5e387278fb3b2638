/* exercise.exe: calls the shims the way hcsshim and the agent do, and ends with 0 where every answer is right. It starts
 * from an empty state (MULLION_SHIM_STATE), and leaves the record of its calls (MULLION_CALLS) for a comparison. */
#define COBJMACROS
#define INITGUID
#include <windows.h>

#include <netfw.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

static int failures;

static void *function(const char *library, const char *name) {
    HMODULE loaded = LoadLibraryA(library);
    void *found = loaded ? (void *)GetProcAddress(loaded, name) : NULL;
    if (!found) {
        printf("%s has no %s\n", library, name);
        ExitProcess(2);
    }
    return found;
}

#define HCN(type, name) type name = (type)function("computenetwork.dll", #name)

static void expect(int is_right, const char *what) {
    if (is_right) return;
    printf("wrong: %s\n", what);
    failures++;
}

static int contains(const wchar_t *text, const wchar_t *piece) { return text && wcsstr(text, piece) != NULL; }

typedef HRESULT(WINAPI *Enumerate)(const wchar_t *, wchar_t **, wchar_t **);
typedef HRESULT(WINAPI *Create)(const GUID *, const wchar_t *, void **, wchar_t **);
typedef HRESULT(WINAPI *CreateIn)(void *, const GUID *, const wchar_t *, void **, wchar_t **);
typedef HRESULT(WINAPI *Open)(const GUID *, void **, wchar_t **);
typedef HRESULT(WINAPI *Modify)(void *, const wchar_t *, wchar_t **);
typedef HRESULT(WINAPI *Query)(void *, const wchar_t *, wchar_t **, wchar_t **);
typedef HRESULT(WINAPI *Delete)(const GUID *, wchar_t **);
typedef HRESULT(WINAPI *Close)(void *);
typedef HRESULT(WINAPI *Hns)(const wchar_t *, const wchar_t *, const wchar_t *, wchar_t **);

static const GUID network_id = {0x11111111, 0x2222, 0x3333, {0x44, 0x44, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55}};
static const GUID endpoint_id = {0xabcdef01, 0x2222, 0x3333, {0x44, 0x44, 0x55, 0x55, 0x55, 0x55, 0x55, 0x66}};

static void networks(void) {
    HCN(Enumerate, HcnEnumerateNetworks);
    HCN(Enumerate, HcnEnumerateEndpoints);
    HCN(Create, HcnCreateNetwork);
    HCN(CreateIn, HcnCreateEndpoint);
    HCN(Open, HcnOpenNetwork);
    HCN(Open, HcnOpenEndpoint);
    HCN(Modify, HcnModifyNetwork);
    HCN(Query, HcnQueryNetworkProperties);
    HCN(Query, HcnQueryEndpointProperties);
    HCN(Delete, HcnDeleteNetwork);
    HCN(Close, HcnCloseNetwork);
    HCN(Close, HcnCloseEndpoint);
    Hns HNSCall = (Hns)function("vmcompute.dll", "HNSCall");
    wchar_t *out = NULL, *error = NULL;
    void *network = NULL, *endpoint = NULL;

    expect(HcnEnumerateNetworks(L"{}", &out, &error) == S_OK && !wcscmp(out, L"[]") && !error, "no networks at first");
    expect((ULONG)HcnOpenNetwork(&network_id, &network, &error) == 0x803B0001 && !network, "no such network");
    expect(contains(error, L"Element not found."), "the service says why");
    expect((ULONG)HcnCreateNetwork(&network_id, L"{no", &network, &error) == 0x803B001B, "not JSON");
    const wchar_t *settings = L"{\"Name\":\"flannel.4096\",\"Type\":\"Overlay\",\"Ipams\":[{\"Type\":\"Static\",\"Subnets\":["
                              L"{\"IpAddressPrefix\":\"10.244.3.0/24\",\"Routes\":[{\"NextHop\":\"10.244.3.1\","
                              L"\"DestinationPrefix\":\"0.0.0.0/0\"}]}]}],\"SchemaVersion\":{\"Major\":2,\"Minor\":0}}";
    expect(HcnCreateNetwork(&network_id, settings, &network, &error) == S_OK && network, "a network is made");
    expect((ULONG)HcnCreateNetwork(NULL, settings, &endpoint, &error) == 0x803B0010, "a name is taken once");
    HcnEnumerateNetworks(L"{\"Filter\":\"{\\\"Name\\\":\\\"Flannel.4096\\\"}\"}", &out, &error);
    expect(!wcscmp(out, L"[\"11111111-2222-3333-4444-555555555555\"]"), "it is found by its name");
    HcnEnumerateNetworks(L"{\"Filter\":\"{\\\"Name\\\":\\\"other\\\"}\"}", &out, &error);
    expect(!wcscmp(out, L"[]"), "another name finds nothing");
    const wchar_t *policy = L"{\"ResourceType\":\"Policy\",\"RequestType\":\"Add\",\"Settings\":{\"Policies\":[{\"Type\":"
                            L"\"RemoteSubnetRoute\",\"Settings\":{\"DestinationPrefix\":\"10.244.1.0/24\"}}]}}";
    const wchar_t *removal = L"{\"ResourceType\":\"Policy\",\"RequestType\":\"Remove\",\"Settings\":{\"Policies\":[{\"Type\":"
                             L"\"RemoteSubnetRoute\",\"Settings\":{\"DestinationPrefix\":\"10.244.1.0/24\"}}]}}";
    expect(HcnModifyNetwork(network, policy, &error) == S_OK, "a policy is added");
    HcnQueryNetworkProperties(network, L"", &out, &error);
    expect(contains(out, L"RemoteSubnetRoute"), "it is shown");
    HcnModifyNetwork(network, removal, &error);
    HcnQueryNetworkProperties(network, L"", &out, &error);
    expect(!contains(out, L"RemoteSubnetRoute") && contains(out, L"10.244.3.0/24"), "it alone is removed");

    expect(HcnCreateEndpoint(network, &endpoint_id, L"{\"Name\":\"ep\",\"IpConfigurations\":[{\"IpAddress\":"
                             L"\"10.244.3.9\",\"PrefixLength\":24}]}", &endpoint, &error) == S_OK, "an endpoint is made");
    HcnQueryEndpointProperties(endpoint, L"", &out, &error);
    expect(contains(out, L"\"HostComputeNetwork\":\"11111111-2222-3333-4444-555555555555\""), "it knows its network");
    expect(contains(out, L"00-15-5D-AB-CD-EF"), "it has a hardware address");
    HNSCall(L"GET", L"/networks/", L"", &out);
    expect(contains(out, L"\"AddressPrefix\":\"10.244.3.0/24\"") && contains(out, L"\"Success\":true"), "the first form");
    HNSCall(L"GET", L"/endpointstats/abcdef01-2222-3333-4444-555555555566", L"", &out);
    expect(contains(out, L"\"BytesSent\":0"), "statistics of an endpoint");
    HNSCall(L"GET", L"/endpointstats/00000000-2222-3333-4444-555555555566", L"", &out);
    expect(contains(out, L"\"Success\":false"), "and of none");
    HNSCall(L"GET", L"/globals/version", L"", &out);
    expect(contains(out, L"\"Major\":"), "the service has a version");
    HcnCloseEndpoint(endpoint);
    HcnCloseNetwork(network);
    expect(HcnDeleteNetwork(&network_id, &error) == S_OK, "a network is removed");
    expect((ULONG)HcnDeleteNetwork(&network_id, &error) == 0x803B0001, "once");
    expect((ULONG)HcnOpenEndpoint(&endpoint_id, &endpoint, &error) == 0x803B0002, "its endpoints with it");
    HcnEnumerateEndpoints(L"{}", &out, &error);
    expect(!wcscmp(out, L"[]"), "none is left");
}

static void features(void) {
    typedef HRESULT(WINAPI * Initialize)(int, const wchar_t *, const wchar_t *);
    typedef HRESULT(WINAPI * OpenSession)(const wchar_t *, const wchar_t *, const wchar_t *, UINT *);
    typedef HRESULT(WINAPI * Info)(UINT, const wchar_t *, const wchar_t *, int, unsigned char **);
    typedef HRESULT(WINAPI * Enable)(UINT, const wchar_t *, const wchar_t *, int, BOOL, const wchar_t **, UINT, BOOL,
                                     HANDLE, void *, void *);
    typedef HRESULT(WINAPI * Free)(void *);
    Initialize initialize = (Initialize)function("dismapi.dll", "DismInitialize");
    OpenSession open = (OpenSession)function("dismapi.dll", "DismOpenSession");
    Info info = (Info)function("dismapi.dll", "DismGetFeatureInfo");
    Enable enable = (Enable)function("dismapi.dll", "DismEnableFeature");
    Free release = (Free)function("dismapi.dll", "DismDelete");
    UINT session = 7;
    unsigned char *feature = NULL;
    const wchar_t *online = L"DISM_{53BFAE52-B167-4E2F-A258-0A37B57FF845}";

    expect((ULONG)open(online, NULL, NULL, &session) == 0xC0040001 && !session, "not before it is initialized");
    expect(initialize(2, NULL, NULL) == S_OK && open(online, NULL, NULL, &session) == S_OK && session, "a session");
    expect((ULONG)info(session, L"No-Such", NULL, 0, &feature) == 0x800F080C && !feature, "a feature nobody knows");
    /* The state comes after one pointer: the structure has no gaps. */
    expect(info(session, L"Containers", NULL, 0, &feature) == S_OK && *(int *)(feature + 8) == 2, "on the disk");
    release(feature);
    expect(enable(session, L"Containers", NULL, 0, FALSE, NULL, 0, TRUE, NULL, NULL, NULL) == 3010, "wants a reboot");
    expect(info(session, L"Containers", NULL, 0, &feature) == S_OK && *(int *)(feature + 8) == 5, "pending");
    release(feature);
    expect(enable(session, L"Containers", NULL, 0, FALSE, NULL, 0, TRUE, NULL, NULL, NULL) == S_OK, "enabled already");
}

static void counters(void) {
    typedef LONG(WINAPI * OpenQuery)(const wchar_t *, DWORD_PTR, void **);
    typedef LONG(WINAPI * Add)(void *, const wchar_t *, DWORD_PTR, void **);
    typedef LONG(WINAPI * Values)(void *, DWORD, DWORD *, DWORD *, void *);
    struct {
        wchar_t *name;
        DWORD status;
        double value;
    } item[1] = {{0}};
    OpenQuery open = (OpenQuery)function("pdh.dll", "PdhOpenQuery");
    Add add = (Add)function("pdh.dll", "PdhAddEnglishCounterW");
    Values values = (Values)function("pdh.dll", "PdhGetFormattedCounterArrayW");
    void *query = NULL, *counter = NULL;
    DWORD size = 0, count = 0;
    expect(open(NULL, 0, &query) == 0 && query, "a query");
    expect(add(query, L"\\Memory\\Committed Bytes", 0, &counter) == 0 && counter, "a counter");
    expect((ULONG)values(counter, 0x200, &size, &count, item) == 0x800007D2 && size == sizeof item, "room first");
    expect(values(counter, 0x200, &size, &count, item) == 0 && count == 1, "then values");
    expect(item[0].value > 1024 * 1024 && !wcscmp(item[0].name, L"_Total"), "memory is in use");
    expect((ULONG)add(query, L"\\Nothing\\At all", 0, &counter) == 0xC0000BB9, "a counter nobody knows");
}

static INetFwRule *new_rule(const wchar_t *name, const wchar_t *group) {
    INetFwRule *rule = NULL;
    BSTR words = SysAllocString(name), kind = SysAllocString(group);
    CoCreateInstance(&CLSID_NetFwRule, NULL, CLSCTX_INPROC_SERVER, &IID_INetFwRule, (void **)&rule);
    expect(rule != NULL, "a rule");
    INetFwRule_put_Name(rule, words);
    INetFwRule_put_Grouping(rule, kind);
    SysFreeString(words);
    SysFreeString(kind);
    return rule;
}

/* How many rules are listed, all of them of that group. */
static int listed(INetFwRules *rules, const wchar_t *group) {
    IUnknown *list = NULL;
    IEnumVARIANT *all = NULL;
    VARIANT one;
    ULONG got = 0;
    int count = 0;
    INetFwRules_get__NewEnum(rules, &list);
    IUnknown_QueryInterface(list, &IID_IEnumVARIANT, (void **)&all);
    IUnknown_Release(list);
    while (IEnumVARIANT_Next(all, 1, &one, &got) == S_OK && got == 1) {
        INetFwRule *rule = NULL;
        BSTR words = NULL;
        IDispatch_QueryInterface(V_DISPATCH(&one), &IID_INetFwRule, (void **)&rule);
        INetFwRule_get_Grouping(rule, &words);
        expect(!wcscmp(words, group), "a rule knows its group");
        SysFreeString(words);
        INetFwRule_Release(rule);
        IDispatch_Release(V_DISPATCH(&one));
        count++;
    }
    IEnumVARIANT_Release(all);
    return count;
}

static void firewall(void) {
    INetFwPolicy2 *policy = NULL;
    INetFwRules *rules = NULL;
    BSTR ports = SysAllocString(L"10250"), name = SysAllocString(L"kubelet"), back = NULL;
    VARIANT_BOOL is_enabled = VARIANT_TRUE;
    CoInitializeEx(NULL, COINIT_MULTITHREADED);
    CoCreateInstance(&CLSID_NetFwPolicy2, NULL, CLSCTX_INPROC_SERVER, &IID_INetFwPolicy2, (void **)&policy);
    expect(policy && INetFwPolicy2_get_Rules(policy, &rules) == S_OK, "a firewall");
    expect(listed(rules, L"ours") == 0, "no rules at first");
    INetFwRule *rule = new_rule(L"kubelet", L"ours");
    expect(INetFwRule_put_LocalPorts(rule, ports) == E_INVALIDARG, "ports come after the protocol");
    INetFwRule_put_Protocol(rule, 6);
    expect(INetFwRule_put_LocalPorts(rule, ports) == S_OK, "and are taken then");
    INetFwRule_get_LocalPorts(rule, &back);
    expect(!wcscmp(back, ports), "they are told again");
    INetFwRule_get_Enabled(rule, &is_enabled);
    expect(is_enabled == VARIANT_FALSE, "a new rule is off");
    expect(INetFwRules_Add(rules, rule) == S_OK && INetFwRules_Add(rules, rule) == S_OK, "it is added");
    expect(listed(rules, L"ours") == 2, "twice, as a name is nobody's own");
    expect(INetFwRules_Remove(rules, name) == S_OK && listed(rules, L"ours") == 1, "one goes");
    expect(INetFwRules_Remove(rules, name) == S_OK && listed(rules, L"ours") == 0, "and the other");
    expect(INetFwRules_Remove(rules, name) == S_OK, "none is well too");
    INetFwRule_Release(rule);
    INetFwRules_Release(rules);
    INetFwPolicy2_Release(policy);
    SysFreeString(back);
    SysFreeString(ports);
    SysFreeString(name);
}

int main(void) {
    networks();
    features();
    counters();
    firewall();
    if (!failures) printf("every answer is right\n");
    return failures != 0;
}
