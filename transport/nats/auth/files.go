package auth

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	tempPrefix = ".new-" // of files and folders that are being written
	// tempAfter is the age of one that nobody is writing any more: writing one takes milliseconds.
	tempAfter = time.Minute
)

// tenantFiles returns the paths of the files with a name that tenants have. A folder that cannot be read is an error, which [filepath.Glob] ignores: a
// tenant that is not seen is no tenant that does not exist.
func tenantFiles(dir, name string) ([]string, error) {
	folders, err := namesIn(filepath.Join(dir, tenantsDir))
	if err != nil {
		return nil, err
	}
	var all []string
	for _, folder := range folders {
		path := filepath.Join(dir, tenantsDir, folder, name)
		switch _, err := os.Lstat(path); {
		case err == nil:
			all = append(all, path)
		case !missing(err):
			return nil, err
		}
	}
	return all, nil
}

// filesWith returns the paths of the entries of a folder whose names end with suffix; none when there is no such folder.
func filesWith(dir, suffix string) ([]string, error) {
	names, err := namesIn(dir)
	if err != nil && !missing(err) {
		return nil, err
	}
	var all []string
	for _, name := range names {
		if strings.HasSuffix(name, suffix) {
			all = append(all, filepath.Join(dir, name))
		}
	}
	return all, nil
}

// namesIn returns the names in a folder, sorted, without what is being written.
func namesIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), tempPrefix) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// missing reports whether err says that there is nothing at a path, or a file where a folder of the path would be.
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// removeLeftovers removes from a folder what processes were writing there when they were killed. Those files hold keys, or credentials that are good and
// that no list shows. Errors are not told: the next writer tries again.
func removeLeftovers(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), tempPrefix) || !e.Type().IsRegular() && !e.IsDir() {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > tempAfter {
			_ = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
}
