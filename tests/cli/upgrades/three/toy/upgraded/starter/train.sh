. ./util.sh
echo train two "$@"
