// Package catalog is which agents a prompt shows, and how that changes from prompt to prompt of a conversation. Few agents are listed all;
// out of many a prompt shows a shortlist, and the model may search the rest. What was shown before stays as it was, so that providers'
// prompt caches hit: what is new is told where it was seen first (see [conversation.Roster]).
//
// The way: [Catalog.Trim] gives what a list of all shows, [Catalog.Candidates] what there is to choose from, [Offer] puts one of the two
// into a prompt.
package catalog
