package postgres

// Sharing is how many units wait for the next shared commit.
func (db *DB) Sharing() int {
	db.commits.mu.Lock()
	defer db.commits.mu.Unlock()
	return len(db.commits.waiting)
}

// Reading is how many reads wait for the next shared one.
func (db *DB) Reading() int {
	db.reads.mu.Lock()
	defer db.reads.mu.Unlock()
	return len(db.reads.waiting)
}

// The bounds of shared commits and reads.
const (
	SharedUnits = sharedUnits
	SharedCrowd = sharedCrowd
	SharedReads = sharedReads
)
