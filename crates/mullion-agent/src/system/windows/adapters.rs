//! Network adapters and their addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use mullion_wire::Adapter;
use windows::Win32::Foundation::{ERROR_BUFFER_OVERFLOW, NO_ERROR, WIN32_ERROR};
use windows::Win32::NetworkManagement::IpHelper::{
    GAA_FLAG_INCLUDE_GATEWAYS, GAA_FLAG_SKIP_ANYCAST, GAA_FLAG_SKIP_DNS_SERVER,
    GAA_FLAG_SKIP_MULTICAST, GET_ADAPTERS_ADDRESSES_FLAGS, GetAdaptersAddresses,
    IF_TYPE_SOFTWARE_LOOPBACK, IP_ADAPTER_ADDRESSES_LH,
};
use windows::Win32::NetworkManagement::Ndis::IfOperStatusUp;
use windows::Win32::Networking::WinSock::{
    AF_INET, AF_INET6, AF_UNSPEC, SOCKADDR_IN, SOCKADDR_IN6, SOCKET_ADDRESS,
};

use super::super::SystemError;
use super::call::{outcome, text};

/// Every adapter but loopback.
pub(super) fn all() -> Result<Vec<Adapter>, SystemError> {
    // Never with prefixes: those are given with each address, and what stands in for Windows fails over them.
    let flags = GAA_FLAG_INCLUDE_GATEWAYS.0
        | GAA_FLAG_SKIP_ANYCAST.0
        | GAA_FLAG_SKIP_MULTICAST.0
        | GAA_FLAG_SKIP_DNS_SERVER.0;
    let mut size = 32 * 1024_u32;
    loop {
        // Of eight bytes each, so that what is put there stands where it may.
        let mut room = vec![0_u64; (size as usize).div_ceil(8)];
        let first = room.as_mut_ptr().cast::<IP_ADAPTER_ADDRESSES_LH>();
        let code = unsafe {
            GetAdaptersAddresses(
                u32::from(AF_UNSPEC.0),
                GET_ADAPTERS_ADDRESSES_FLAGS(flags),
                None,
                Some(first),
                &raw mut size,
            )
        };
        if code == ERROR_BUFFER_OVERFLOW.0 {
            continue;
        }
        if code != NO_ERROR.0 {
            outcome("GetAdaptersAddresses", WIN32_ERROR(code))?;
        }
        return Ok(unsafe { walk(first) });
    }
}

unsafe fn walk(first: *const IP_ADAPTER_ADDRESSES_LH) -> Vec<Adapter> {
    let mut adapters = Vec::new();
    let mut next = first;
    while let Some(found) = unsafe { next.as_ref() } {
        next = found.Next;
        if found.IfType == IF_TYPE_SOFTWARE_LOOPBACK {
            continue;
        }
        let mut addresses = Vec::new();
        let mut address = found.FirstUnicastAddress;
        while let Some(one) = unsafe { address.as_ref() } {
            if let Some(ip) = unsafe { ip(&one.Address) } {
                addresses.push(format!("{ip}/{}", one.OnLinkPrefixLength));
            }
            address = one.Next;
        }
        let mut gateways = Vec::new();
        let mut gateway = found.FirstGatewayAddress;
        while let Some(one) = unsafe { gateway.as_ref() } {
            gateways.extend(unsafe { ip(&one.Address) }.map(|ip| ip.to_string()));
            gateway = one.Next;
        }
        let length = (found.PhysicalAddressLength as usize).min(found.PhysicalAddress.len());
        let mac: Vec<_> = found.PhysicalAddress[..length]
            .iter()
            .map(|byte| format!("{byte:02X}"))
            .collect();
        adapters.push(Adapter {
            name: unsafe { text(found.FriendlyName) },
            description: unsafe { text(found.Description) },
            mac: mac.join("-"),
            addresses,
            gateways,
            is_up: found.OperStatus == IfOperStatusUp,
            metric: found.Ipv4Metric,
        });
    }
    adapters
}

/// The address in a socket's address.
unsafe fn ip(address: &SOCKET_ADDRESS) -> Option<IpAddr> {
    let family = unsafe { address.lpSockaddr.as_ref() }?.sa_family;
    match family {
        AF_INET => {
            let four = unsafe { read::<SOCKADDR_IN>(address) };
            let bits = u32::from_be(unsafe { four.sin_addr.S_un.S_addr });
            Some(Ipv4Addr::from_bits(bits).into())
        }
        AF_INET6 => {
            let six = unsafe { read::<SOCKADDR_IN6>(address) };
            Some(Ipv6Addr::from(unsafe { six.sin6_addr.u.Byte }).into())
        }
        _ => None,
    }
}

/// What a socket's address is, once its family is known.
unsafe fn read<T: Copy>(address: &SOCKET_ADDRESS) -> T {
    unsafe { address.lpSockaddr.cast::<u8>().cast::<T>().read_unaligned() }
}
