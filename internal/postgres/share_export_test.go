package postgres

// Sharing is how many units wait for the next shared commit.
func (db *DB) Sharing() int {
	db.sharers.mu.Lock()
	defer db.sharers.mu.Unlock()
	return len(db.sharers.waiting)
}

// The bounds of shared commits.
const (
	SharedUnits = sharedUnits
	SharedCrowd = sharedCrowd
)
