// Package localpg runs a real PostgreSQL of our own for dev, tests and benchmarks: it finds the binaries
// on this machine, makes a cluster, starts it on 127.0.0.1 and ends it again.
//
// It owns one directory per server, and everything in it:
//
//	lock            held by the launching process for as long as it lives
//	password        the owner's password, mode 0600
//	port            the port of the last start, asked for again by the next one
//	postgresql.log  what PostgreSQL and initdb said
//	data/           the cluster
//
// Whoever holds the lock is the only launcher of that cluster. A PostgreSQL that runs on data/ while
// nobody holds the lock has lost its launcher (kill -9, power cut) and is shut down before a new one is
// started; so a PostgreSQL that was started there by hand is ended too.
//
// The package never downloads anything, never listens beyond loopback, never opens a database connection
// and knows nothing of this product's schema. It is no way to run PostgreSQL in production: nobody takes
// backups, and the launcher's death is PostgreSQL's fast shutdown.
//
// As root it runs PostgreSQL, which refuses root, as the user postgres or else nobody. Every parent of the
// directory must then let that user through, which /root and [testing.T.TempDir] do not: see [MkdirTemp].
//
// On Linux the kernel shuts PostgreSQL down when its launcher dies, and /proc tells which processes use
// data/. Elsewhere a PostgreSQL that lost its launcher runs on until the next start finds it through ps.
package localpg
