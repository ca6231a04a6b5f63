"""Dense linear algebra of the tests runs on one thread: on a busy machine BLAS threads that wait for each other take
many times longer than one alone. The library's own threads are left as they are."""

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(scope="session", autouse=True)
def one_blas_thread():
    with threadpool_limits(limits=1, user_api="blas"):
        yield
