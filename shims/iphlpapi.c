/* iphlpapi.dll: Wine's own, but for one flag. Wine 10.0 answers GetAdaptersAddresses with ERROR_INVALID_DATA where
 * prefixes are asked for, and every Go program asks for them, and uses none.
 *
 * Everything else is passed on (see iphlpapi.def) to `wine_iphlpapi.dll`: a copy of Wine's, without the mark by which
 * Wine knows its own files and loads them by their name. */
#include <winsock2.h>
#include <ws2tcpip.h>

#include <iphlpapi.h>

typedef ULONG(WINAPI *Original)(ULONG, ULONG, void *, IP_ADAPTER_ADDRESSES *, ULONG *);

ULONG WINAPI GetAdaptersAddresses(ULONG family, ULONG flags, void *reserved, IP_ADAPTER_ADDRESSES *addresses,
                                  ULONG *size) {
    /* Loaded with this one, for the sake of what is passed on; asked for by name all the same. */
    HMODULE wine = LoadLibraryA("wine_iphlpapi.dll");
    Original original = wine ? (Original)(void *)GetProcAddress(wine, "GetAdaptersAddresses") : NULL;
    if (!original) return ERROR_NOT_SUPPORTED;
    return original(family, flags & ~(ULONG)GAA_FLAG_INCLUDE_PREFIX, reserved, addresses, size);
}
