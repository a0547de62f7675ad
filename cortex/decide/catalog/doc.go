// Package catalog determines which agents a prompt shows, and how that changes between the prompts of a conversation. Few agents are all listed; of
// many, a prompt shows a shortlist, and the model may search the rest. The text of earlier prompts does not change, so that providers' prompt caches
// hit: changes are stated where they became known (see [conversation.Roster]).
//
// [Catalog.Trim] makes a full list, [Catalog.Candidates] what a shortlist is chosen from, and [Offer] adds one of the two to a prompt.
package catalog
