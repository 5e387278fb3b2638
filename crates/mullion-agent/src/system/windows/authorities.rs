//! The machine's store of root authorities.

use mullion_wire::Sha256Digest;
use windows::Win32::Security::Cryptography::{
    CERT_CONTEXT, CERT_CONTROL_STORE_FLAGS, CERT_OPEN_STORE_FLAGS, CERT_STORE_ADD_USE_EXISTING,
    CERT_STORE_CTRL_COMMIT, CERT_STORE_PROV_SYSTEM_W, CERT_STORE_READONLY_FLAG,
    CERT_SYSTEM_STORE_LOCAL_MACHINE, CertAddEncodedCertificateToStore, CertCloseStore,
    CertControlStore, CertDeleteCertificateFromStore, CertEnumCertificatesInStore,
    CertFreeCertificateContext, CertOpenStore, HCERTSTORE, X509_ASN_ENCODING,
};
use windows::core::Error;

use super::super::{Removed, SystemError};
use super::call::{Wide, failed, is_absent};

/// The store, open.
struct Store(HCERTSTORE);

impl Drop for Store {
    fn drop(&mut self) {
        // Every change was written by then.
        let _ = unsafe { CertCloseStore(Some(self.0), 0) };
    }
}

/// A certificate in the store.
struct Found(*const CERT_CONTEXT);

impl Found {
    fn bytes(&self) -> &[u8] {
        let (start, length) =
            unsafe { ((*self.0).pbCertEncoded, (*self.0).cbCertEncoded as usize) };
        unsafe { std::slice::from_raw_parts(start, length) }
    }

    /// Gives it to a call that frees it.
    fn into_call(self) -> *const CERT_CONTEXT {
        let context = self.0;
        std::mem::forget(self);
        context
    }
}

impl Drop for Found {
    fn drop(&mut self) {
        let _ = unsafe { CertFreeCertificateContext(Some(self.0)) };
    }
}

impl Store {
    fn open(flags: CERT_OPEN_STORE_FLAGS) -> Result<Self, SystemError> {
        let name = Wide::new("Root");
        let opened = unsafe {
            CertOpenStore(
                CERT_STORE_PROV_SYSTEM_W,
                X509_ASN_ENCODING,
                None,
                CERT_OPEN_STORE_FLAGS(CERT_SYSTEM_STORE_LOCAL_MACHINE) | flags,
                Some(name.as_ptr().as_ptr().cast()),
            )
        };
        opened.map(Self).map_err(failed("CertOpenStore Root"))
    }

    /// Writes changes down. Windows does so as they are made; a stand-in for it forgets a removal otherwise.
    fn commit(&self) -> Result<(), SystemError> {
        let none = CERT_CONTROL_STORE_FLAGS(0);
        written(unsafe { CertControlStore(self.0, none, CERT_STORE_CTRL_COMMIT, None) })
    }

    fn find(&self, certificate: &Sha256Digest) -> Option<Found> {
        let mut found: Option<Found> = None;
        loop {
            // The call frees the one before.
            let before = found.take().map(Found::into_call);
            let next = unsafe { CertEnumCertificatesInStore(self.0, before) };
            if next.is_null() {
                return None;
            }
            let next = Found(next);
            if Sha256Digest::of(next.bytes()) == *certificate {
                return Some(next);
            }
            found = Some(next);
        }
    }
}

/// Whether changes are written down: a store that has nothing to be told has written them.
fn written(committed: Result<(), Error>) -> Result<(), SystemError> {
    match committed {
        Err(error) if !is_absent(&error) => Err(failed("CertControlStore Root")(error)),
        _ => Ok(()),
    }
}

pub(super) fn has(certificate: &Sha256Digest) -> Result<bool, SystemError> {
    let store = Store::open(CERT_STORE_READONLY_FLAG)?;
    Ok(store.find(certificate).is_some())
}

pub(super) fn add(certificate: &[u8]) -> Result<(), SystemError> {
    let store = Store::open(CERT_OPEN_STORE_FLAGS(0))?;
    let added = unsafe {
        CertAddEncodedCertificateToStore(
            Some(store.0),
            X509_ASN_ENCODING,
            certificate,
            CERT_STORE_ADD_USE_EXISTING,
            None,
        )
    };
    added.map_err(failed("CertAddEncodedCertificateToStore Root"))?;
    store.commit()
}

pub(super) fn remove(certificate: &Sha256Digest) -> Result<Removed, SystemError> {
    let store = Store::open(CERT_OPEN_STORE_FLAGS(0))?;
    let Some(found) = store.find(certificate) else {
        return Ok(Removed::Nothing);
    };
    let removed = unsafe { CertDeleteCertificateFromStore(found.into_call()) };
    removed.map_err(failed("CertDeleteCertificateFromStore Root"))?;
    store.commit()?;
    Ok(Removed::Gone)
}

#[cfg(test)]
mod tests {
    use windows::Win32::Foundation::{
        ERROR_ACCESS_DENIED, ERROR_CALL_NOT_IMPLEMENTED, ERROR_NOT_SUPPORTED,
    };

    use super::*;

    #[test]
    fn a_store_that_writes_by_itself_need_not_be_told_to() {
        for reason in [ERROR_NOT_SUPPORTED, ERROR_CALL_NOT_IMPLEMENTED] {
            written(Err(reason.to_hresult().into())).unwrap();
        }
        written(Ok(())).unwrap();
        written(Err(ERROR_ACCESS_DENIED.to_hresult().into())).unwrap_err();
    }
}
