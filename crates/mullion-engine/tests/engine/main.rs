//! What the engine promises, tried on small clusters in an in-memory world: one by one with seeded faults and a clock
//! that moves by itself, and with real threads.

#[cfg(test)]
mod cancelling;
#[cfg(test)]
mod evidence;
#[cfg(test)]
mod failing;
#[cfg(test)]
mod files;
#[cfg(test)]
mod secrets;
#[cfg(test)]
mod selecting;
#[cfg(test)]
mod showing;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod sketch;
#[cfg(test)]
mod stage_hand;
#[cfg(test)]
mod threads;
#[cfg(test)]
mod witness;
