//! The way out through a proxy.

use super::Checker;
use crate::cluster::Proxy;
use crate::raw::RawProxy;
use crate::source::Path;

impl Checker<'_> {
    /// The proxy. What the cluster has itself goes without it, whether the file names it or not.
    pub(super) fn proxy(&mut self, raw: &RawProxy) -> Proxy {
        let at = Path::top().key("proxy");
        let mut way = |field: &str, text: &Option<String>| {
            let text = text.as_ref()?;
            Some(self.address(&at.key(field), text))
        };
        Proxy {
            http: way("http", &raw.http),
            https: way("https", &raw.https),
            no: raw.no.clone(),
        }
    }
}
