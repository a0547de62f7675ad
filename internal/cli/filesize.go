package cli

import (
	"fmt"
	"strconv"
	"strings"
)

// fileSize is a number of bytes that may be written with a unit, such as 64MB.
type fileSize int64

const maxFileSize = 4_000_000_000 // the largest value that can be given

var fileUnits = []struct {
	name  string
	bytes int64
}{{"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"B", 1}}

// Set implements pflag.Value.
func (f *fileSize) Set(s string) error {
	number, unit := strings.TrimSpace(s), int64(1)
	for _, u := range fileUnits {
		if rest, ok := strings.CutSuffix(strings.ToUpper(number), u.name); ok {
			number, unit = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 1 || n > maxFileSize/unit {
		return fmt.Errorf("%q is no size of a file: write one up to 4GB, such as 64MB", s)
	}
	*f = fileSize(n * unit)
	return nil
}

// String implements pflag.Value.
func (f *fileSize) String() string {
	for _, u := range fileUnits {
		if n := int64(*f); n >= u.bytes && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return "0"
}

// Type implements pflag.Value.
func (f *fileSize) Type() string { return "SIZE" }
