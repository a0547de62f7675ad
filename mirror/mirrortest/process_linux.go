package mirrortest

import (
	"os"
	"os/exec"
	"os/user"
	"runtime"
	"strconv"
	"syscall"
)

// attributes returns those of a process that ends with this one, and that is the user postgres when this is root, who may not run PostgreSQL.
func attributes() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if uid, gid, ok := postgres(); ok {
		a.Credential = &syscall.Credential{Uid: uid, Gid: gid}
	}
	return a
}

// postgres returns the user postgres; ok is false unless this is root.
func postgres() (uid, gid uint32, ok bool) {
	if os.Geteuid() != 0 {
		return 0, 0, false
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return 0, 0, false
	}
	id, err1 := strconv.ParseUint(u.Uid, 10, 32)
	group, err2 := strconv.ParseUint(u.Gid, 10, 32)
	return uint32(id), uint32(group), err1 == nil && err2 == nil
}

// own gives a folder to the user of attributes.
func own(dir string) error {
	uid, gid, ok := postgres()
	if !ok {
		return nil
	}
	if err := os.Chown(dir, int(uid), int(gid)); err != nil {
		return err
	}
	return os.Chmod(dir, 0o700)
}

// start starts a process on a thread that stays: Pdeathsig is about the thread that started it.
func start(cmd *exec.Cmd) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		started <- cmd.Start()
		select {} // the thread lasts as long as the program
	}()
	return <-started
}
