// Package learn is what delegations teach: which agents were good for what. [Learner.Learn] takes it from the entries of conversations, the
// router is taught it, and the store keeps it as evidence in a note for each agent. A person who says that an answer was wrong, or asks
// somebody else for the same, takes it back; what a conversation taught goes when it is erased ([Forget]).
package learn
