//! Documents of whole clusters: what they say, and what holds for all of them.

#[cfg(test)]
mod api_server;
#[cfg(test)]
mod documents;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod scene;
#[cfg(test)]
mod script;
#[cfg(test)]
mod upstream;

#[cfg(test)]
mod windows;
