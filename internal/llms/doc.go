// Package llms makes clients of models: of those that are built in, of those that the config file names below llms, and of those that a program
// brings. Here alone are the names of vendors.
//
// An [Endpoint] is an entry of the config file, with what is usual at its [Provider] as defaults. [Chain] puts its fallbacks behind it, and [Open] makes
// one client of them, with their retries, limits and prices. Without [Open], [Probe] and [Endpoint.Models] nothing is asked of the network.
package llms
