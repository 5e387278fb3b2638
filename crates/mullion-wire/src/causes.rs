//! Errors with the causes behind them.

use std::error::Error;

/// The words of an error, and then of the causes behind it.
pub fn error_chain(error: &dyn Error) -> Vec<String> {
    let chain = std::iter::successors(Some(error), |error| (*error).source());
    chain.map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_comes_before_its_causes() {
        #[derive(Debug, thiserror::Error)]
        #[error("outer")]
        struct Outer(#[source] std::fmt::Error);
        let inner = std::fmt::Error;
        assert_eq!(
            error_chain(&Outer(inner)),
            ["outer".to_owned(), inner.to_string()]
        );
    }
}
