// Package disk says what a process may write where, as far as the system tells.
package disk
