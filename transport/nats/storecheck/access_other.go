//go:build !unix

package storecheck

// accessible returns an error unless this process may read and write a file or folder, as far as that can be asked here.
func accessible(string) error { return nil }
