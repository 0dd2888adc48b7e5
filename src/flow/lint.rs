//! What is wrong with a pack, before anybody runs it.
