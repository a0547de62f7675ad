// Package console is the page of a running Cortex in the browser: chat, turns, agents and what operators look at. Pages are rendered by the server, and
// complete without JavaScript; small modules of its own make them live. Everything is embedded: nothing is loaded from elsewhere.
//
// It shows what package view reads from the store, and what package client hears on the live topic. Whoever uses it acts in their own name through a
// [client.Client], so that the same checks apply as to all others who ask Cortex.
//
// Every view is a URL, and answers with the JSON of the corresponding command when a request accepts only that.
//
// Events of a conversation are sent as server-sent events. Their id is the position in its log, which a browser sends again when it reconnects, to this
// process or another replica: what the log has is neither lost nor sent twice. What is live (text as it is written, progress) has no id.
package console
