// Package learn learns from delegations which agents are good for what. [Learner.Learn] extracts evidence from the entries of conversations, teaches
// it to the router, and stores it in a note for each agent. When a user says that an answer was wrong, or asks another agent for the same, the
// evidence is removed; when a conversation is erased, so is its evidence ([Forget]).
package learn
