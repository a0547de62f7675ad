package disk

import "golang.org/x/sys/windows"

// Room returns how many bytes of the disk of a folder this process may still write, and how many it has.
func Room(dir string) (free, size uint64, err error) {
	path, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, 0, err
	}
	err = windows.GetDiskFreeSpaceEx(path, &free, &size, nil)
	return free, size, err
}

// Inodes returns 0 of 0: there is no bound of its own.
func Inodes(string) (free, all uint64, err error) { return 0, 0, nil }

// MayWrite returns nil: writing reports the error.
func MayWrite(string) error { return nil }
