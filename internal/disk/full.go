package disk

import (
	"errors"
	"fmt"
	"syscall"
)

// LeastInodes is how many files and folders a disk must have room for, so that a store can be made and written there.
const LeastInodes = 256

// FewInodes returns how many more files and folders the disk of a folder may have; few says whether these are too few, fewer than a least number.
func FewInodes(dir string, least uint64) (free uint64, few bool) {
	free, all, err := Inodes(dir)
	return free, err == nil && all > 0 && free < least
}

// InodesText says what is wrong with a disk that has so few inodes left, and what to do.
func InodesText(free uint64) string {
	left := fmt.Sprintf("only %d inodes", free)
	if free == 0 {
		left = "no inodes"
	}
	return left + " left on its disk, whatever room that has: remove files there (`df -i` shows how many it may have)"
}

// Full reports whether an error is one of a disk without room, or of somebody who may have no more of it.
func Full(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// FullText says what to do about a full disk that has a folder: few files may be all that it can have.
func FullText(dir string) string {
	if free, few := FewInodes(dir, LeastInodes); few {
		return InodesText(free)
	}
	return "make room on its disk"
}
