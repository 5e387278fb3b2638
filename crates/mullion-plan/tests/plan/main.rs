//! What planning promises, tried on generated clusters and on an in-memory world with faults.

#[cfg(test)]
mod autostart;
#[cfg(test)]
mod examples;
#[cfg(test)]
mod lasting;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod registration;
#[cfg(test)]
mod renewal;
#[cfg(test)]
mod scene;
#[cfg(test)]
mod scramble;
#[cfg(test)]
mod sketch;
#[cfg(test)]
mod sweeps;
#[cfg(test)]
mod unseen;
#[cfg(test)]
mod walk;
