//! The way out through a proxy.

use super::Checker;
use crate::cluster::Proxy;
use crate::draft::Surroundings;
use crate::finding::Finding;
use crate::raw::RawProxy;
use crate::rules::shape as rule;
use crate::source::Path;

impl Checker<'_> {
    /// The proxy. What the cluster has itself goes without it, whether the file names it or not.
    pub(super) fn proxy(&mut self, raw: &RawProxy, surroundings: &Surroundings) -> Proxy {
        let at = Path::top().key("proxy");
        // A proxy that cannot be read is a proxy that was meant.
        let is_meant =
            |field: &str, text: &Option<String>| text.is_some() || self.is_left_out(&at.key(field));
        let has_proxy = is_meant("http", &raw.http) || is_meant("https", &raw.https);
        if !raw.no.is_empty() && !has_proxy && !surroundings.has_proxy {
            self.report(
                Finding::new(&rule::PROXY_MISSING, at.key("no"))
                    .message(
                        "`proxy.no` has no effect: neither `proxy.http` nor `proxy.https` is set",
                    )
                    .hint("set `proxy.http` or `proxy.https`, or remove `proxy.no`"),
            );
        }
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

#[cfg(test)]
mod tests {
    use crate::draft::{Draft, Surroundings};
    use crate::source::Source;

    #[test]
    fn hosts_without_a_proxy_need_a_proxy() {
        let found = |proxy: &str, has_proxy: bool| {
            let text = format!("machines: {{linux: 1}}\nproxy: {{{proxy}}}\n");
            let surroundings = Surroundings {
                has_proxy,
                ..Surroundings::default()
            };
            let verdict = Draft::read(Source::new("the file", text), &surroundings).conclude();
            let found = verdict.findings.iter().map(|located| {
                let line = located.position.map(|position| position.line);
                (located.finding.rule.code, line)
            });
            found.collect::<Vec<_>>()
        };
        assert_eq!(found("no: [a.example]", false), [("E0215", Some(2))]);
        assert_eq!(found("no: [\"*\"]", false), [("E0215", Some(2))]);
        let proxy = "\"http://proxy.example:3128\"";
        for with in [
            format!("http: {proxy}, no: [a.example]"),
            format!("https: {proxy}, no: [a.example]"),
            "no: []".into(),
        ] {
            assert_eq!(found(&with, false), [], "{with}");
        }
        // One mistake is told once.
        assert_eq!(
            found("http: [], no: [a.example]", false),
            [("E0202", Some(2))]
        );
        // Downloads go through the proxy that the environment names.
        assert_eq!(found("no: [a.example]", true), []);
    }
}
