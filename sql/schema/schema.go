// Package schema holds the database's migrations: the one description of its tables, which sqlc reads to type the
// queries and golang-migrate applies. A file that has been released is never edited; a change is a new file, one
// statement in it, with a down file that was tested.
package schema

import "embed"

// Files are golang-migrate's NNNNNN_name.{up,down}.sql.
//
//go:embed *.sql
var Files embed.FS
