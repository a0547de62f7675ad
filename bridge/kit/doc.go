// Package kit has what the bridges to other systems share: which names of agents are taken, ids that follow from those of the other side, and
// flags for addresses. Each bridge is a package beside this one, and a role of `cortex serve` (package app/role).
package kit
