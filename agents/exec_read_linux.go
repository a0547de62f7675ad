package agents

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// opened tells whether a program has opened a file of a folder.
type opened struct{ fd int }

// watchFolder begins to watch the files of a folder. It returns nil when the system has no watch left: then nothing is known.
func watchFolder(dir string) *opened {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil
	}
	// A file that was moved away or linked to may be read elsewhere.
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_OPEN|unix.IN_MOVED_FROM|unix.IN_ATTRIB|unix.IN_DELETE); err != nil {
		_ = unix.Close(fd)
		return nil
	}
	return &opened{fd}
}

// none reports whether no file was opened since then. Folders do not count: listing them reads no file.
func (o *opened) none() bool {
	if o == nil {
		return false
	}
	b := make([]byte, 16<<10)
	for {
		n, err := unix.Read(o.fd, b)
		if err == unix.EINTR { //nolint:errorlint // an errno
			continue
		}
		if err != nil || n <= 0 {
			return err == unix.EAGAIN //nolint:errorlint // an errno
		}
		for at := 0; at+unix.SizeofInotifyEvent <= n; {
			mask := binary.NativeEndian.Uint32(b[at+4:])
			if mask&unix.IN_ISDIR == 0 {
				return false
			}
			at += unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[at+12:]))
		}
	}
}

// stop ends the watch.
func (o *opened) stop() {
	if o != nil {
		_ = unix.Close(o.fd)
	}
}
