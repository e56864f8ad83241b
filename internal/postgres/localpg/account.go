package localpg

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is who PostgreSQL runs as. The zero account is the user of this process.
type account struct {
	name       string
	credential *syscall.Credential
}

// unprivileged returns the account for PostgreSQL, which refuses to run as root.
func unprivileged() (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(found.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(found.Gid, 10, 32)
		if uidErr != nil || gidErr != nil {
			continue
		}
		return account{name: name, credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
	}
	return account{}, fmt.Errorf("postgresql cannot run as root, and there is no user postgres or nobody to run it as")
}

// own gives path to the account.
func (a account) own(path string) error {
	if a.credential == nil {
		return nil
	}
	return os.Chown(path, int(a.credential.Uid), int(a.credential.Gid))
}

// reaches reports, as an error with the remedy, the first directory on the way to path through which the
// account may not go. Only mode bits are looked at.
func (a account) reaches(path string) error {
	if a.credential == nil {
		return nil
	}
	if parent := filepath.Dir(path); parent != path {
		if err := a.reaches(parent); err != nil {
			return err
		}
	}
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return err
	}
	search := fs.FileMode(0o001)
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		switch {
		case stat.Uid == a.credential.Uid:
			search = 0o100
		case stat.Gid == a.credential.Gid:
			search = 0o010
		}
	}
	if info.Mode()&search == 0 {
		return fmt.Errorf("as root, postgresql runs as user %s, who may not pass through %s: "+
			"choose another place, or run: chmod o+x %s", a.name, path, path)
	}
	return nil
}
